package table

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
	"lancesql/internal/testkit/oracle"
)

// pylance is a long-lived process of table_ops.py --serve.
type pylance struct {
	in   io.WriteCloser
	out  *bufio.Reader
	path string // of the table
}

// startPylance starts the process; it ends with the test.
func startPylance(t testing.TB, path string) *pylance {
	t.Helper()
	cmd := exec.Command(oracle.Python(t), "-B", filepath.Join(oracle.Root(t), "testdata", "oracle", "table_ops.py"), "--serve")
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "LANCE_LOG=error")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &pylance{in: in, out: bufio.NewReaderSize(out, 1<<20), path: path}
}

// fields are the members of a request.
type fields map[string]any

// call sends one request. The error, if any, matches errs.ErrConflict, ErrIncompatible or errs.ErrSchemaChanged as pylance
// judged it.
func (p *pylance) call(op string, f fields, answer any) error {
	request := fields{"path": p.path, "op": op}
	for k, v := range f {
		request[k] = v
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return err
	}
	reply, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: no answer: %w", op, err)
	}
	var r struct {
		Answer      json.RawMessage
		Error, Kind string
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	switch {
	case r.Error == "":
		if answer == nil {
			return nil
		}
		return json.Unmarshal(r.Answer, answer)
	case r.Kind == "retry":
		return fmt.Errorf("pylance %s: %w: %s", op, errs.ErrConflict, r.Error)
	case r.Kind == "schema": // the columns changed between its look at the table and its attempt
		return fmt.Errorf("pylance %s: %w: %s", op, errs.ErrSchemaChanged, r.Error)
	case r.Kind == "never":
		return fmt.Errorf("pylance %s: %w: %s", op, ErrIncompatible, r.Error)
	}
	return errors.New("pylance " + op + ": " + r.Error)
}

// view is what pylance sees.
type view struct {
	Version   uint64
	Schema    [][3]any // name, type, nullable
	Rows      [][]*string
	Filtered  [][]*string
	Indexes   []string
	Tags      map[string]uint64
	Versions  []uint64
	Fragments []uint64
}
