// Command otbr-agent is the fake of package otbrtest, for the emulated gateway. Its
// Behaviour is in /tmp/otbr-agent.json.
package main

import (
	"os"

	"gwinit/services/otbr-supervisor/otbrtest"
)

func main() { os.Exit(otbrtest.Main("/tmp/otbr-agent.json", os.Args[1:])) }
