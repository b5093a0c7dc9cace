// Command http is a program with much of the standard library in it, for
// comparing sizes.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: http URL")
		os.Exit(2)
	}
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
}
