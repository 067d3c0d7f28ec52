package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

//go:embed reference.py
var script string

// request is one line to reference.py.
type request struct {
	Op    string `json:"op"` // make, scan, take, write
	Case  string `json:"case,omitempty"`
	Rows  any    `json:"rows,omitempty"` // a count for make, the rows for take
	Batch int    `json:"batch,omitempty"`
	Truth string `json:"truth,omitempty"`
	Path  string `json:"path,omitempty"`
}

// answer is its line back, and what our side measures of itself.
type answer struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds of all threads
	Rows    int     `json:"rows"`
	Bytes   int64   `json:"bytes"` // of the rows in Arrow form
	Size    int64   `json:"size"`  // of the file
}

// reference is a running Python with pylance.
type reference struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startReference starts python, which is one path of an interpreter. Its decoding gets one thread.
func startReference(ctx context.Context, python string) (*reference, error) {
	cmd := exec.CommandContext(ctx, python, "-B", "-c", script)
	cmd.Env = append(os.Environ(), "LANCE_CPU_THREADS=1")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("start reference: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start reference: %w", err)
	}
	return &reference{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// ask sends one request and waits for its answer.
func (r *reference) ask(q request) (answer, error) {
	var a answer
	text, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	if _, err := r.in.Write(append(text, '\n')); err != nil {
		return a, fmt.Errorf("reference, %s: %w", q.Op, err)
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("reference, %s %s: %w", q.Op, q.Case, err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("reference, %s: %w", q.Op, err)
	}
	return a, nil
}

// close ends the process.
func (r *reference) close() error {
	return errors.Join(r.in.Close(), r.cmd.Wait())
}
