//go:build linux

// Package onbox has commands of gwctl that work on the gateway's files. On a
// workstation they are run by the gateway's own gwctl (package remote).
package onbox

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"gwinit/internal/applet"
)

// errNo is a question that was not answered with yes.
var errNo = errors.New("nothing was changed")

// confirmed asks a yes of who sits at standard input. A program that has to be
// sure gives -y.
func confirmed(std applet.IO, question string) error {
	fmt.Fprintf(std.Err, "%s (yes/no) ", question)
	answer, err := bufio.NewReader(std.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "yes", "y":
		return nil
	}
	if err != nil && answer == "" {
		return fmt.Errorf("%w: nobody answers; -y is a yes", errNo)
	}
	return errNo
}
