package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

// readmeBlocks are the fenced blocks of README.md in order.
func readmeBlocks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(oracle.Root(t), "README.md"))
	require.NoError(t, err)
	var blocks []string
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			_, body, _ := strings.Cut(part, "\n")
			blocks = append(blocks, body)
		}
	}
	return blocks
}

// block returns the index of the only block that contains the text.
func block(t *testing.T, blocks []string, text string) int {
	t.Helper()
	at := -1
	for i, b := range blocks {
		if strings.Contains(b, text) {
			require.Equal(t, -1, at, "two blocks with %q", text)
			at = i
		}
	}
	require.NotEqual(t, -1, at, "no block with %q", text)
	return at
}

// TestReadme runs the README's session as it stands there, on a server of the test's own, and compares what the README shows.
func TestReadme(t *testing.T) {
	client := oracle.Program(t, "mysql")
	blocks := readmeBlocks(t)
	dir := t.TempDir()
	srv := server.Start(t, server.Options{DataDir: filepath.Join(dir, "data")})
	shell := func(script string) string {
		t.Helper()
		prelude := fmt.Sprintf("set -eu\nmysql() { %s --no-defaults -P %d \"$@\"; }\n", client, srv.Port())
		cmd := exec.Command("bash", "-c", prelude+script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	session := block(t, blocks, "CREATE DATABASE shop")
	require.Equal(t, blocks[session+1], shell(blocks[session]))
	srv.Restart()
	require.Equal(t, blocks[session+1], shell("mysql -h 127.0.0.1 -u root -e 'SELECT * FROM shop.item ORDER BY id'"))

	reading := block(t, blocks, "FLUSH TABLES shop.item")
	t.Run("python", func(t *testing.T) {
		python := oracle.Python(t)
		var lines []string
		for _, line := range strings.Split(blocks[reading], "\n") {
			if strings.Contains(line, "-m venv") || strings.Contains(line, "pip install") {
				continue // the test's Python has both packages already
			}
			lines = append(lines, strings.Replace(line, ".venv/bin/python", python, 1))
		}
		require.Equal(t, blocks[reading+1], shell(strings.Join(lines, "\n")))
	})
}
