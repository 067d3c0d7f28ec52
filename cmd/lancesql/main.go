package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lancesql/sqlbackend"
)

const usage = `lancesql is a MySQL-protocol database whose tables are Lance datasets.

  lancesql serve [flags]          run the server; lancesql serve --help lists the flags
  lancesql check DIR [flags]      verify a data directory that no server has open
  lancesql recover DIR [flags]    complete WAL files for outside tools after a crash; set damage aside
  lancesql inspect PATH [--json]  show what is inside a table, a file of one, or a data directory
  lancesql --version              print the version
  lancesql --help                 print this text
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	var err error
	switch command {
	case "serve":
		err = serve(args[1:], stdout, stderr)
	case "check":
		err = check(args[1:], stdout, stderr)
	case "recover":
		err = recoverDir(args[1:], stdout, stderr)
	case "inspect":
		err = inspectPath(args[1:], stdout)
	case "--version", "-version", "version":
		fmt.Fprintf(stdout, "lancesql %s (speaks MySQL %s)\n", sqlbackend.Version, sqlbackend.ServerVersion)
	case "--help", "-help", "-h", "help":
		fmt.Fprint(stdout, usage)
	case "":
		err = fmt.Errorf("no command; try lancesql --help")
	default:
		err = fmt.Errorf("unknown command %q; try lancesql --help", command)
	}
	if err == nil {
		return 0
	}
	code := 1
	if own := (*exitError)(nil); errors.As(err, &own) {
		code = own.code
	}
	fmt.Fprintln(stderr, "lancesql: "+strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
	return code
}
