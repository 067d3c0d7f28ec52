package engine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/errs"
)

// lockChildEnv makes the test binary open the data directory it names, print a line and wait for its input to end.
const lockChildEnv = "LANCESQL_TEST_LOCK_CHILD"

func TestLockChild(t *testing.T) {
	dir := os.Getenv(lockChildEnv)
	if dir == "" {
		t.Skip("only as a child process of TestLockOfAnotherProcess")
	}
	_, release, err := openDataDir(context.Background(), dir)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("locked")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, release())
}

// openInChild opens dir in another process; it returns the process and the line it printed.
func openInChild(t *testing.T, dir string) (*exec.Cmd, string, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockChild$", "-test.v")
	cmd.Env = append(os.Environ(), lockChildEnv+"="+dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if l := lines.Text(); l == "locked" || strings.HasPrefix(l, "refused") {
			return cmd, l, func() { _ = in.Close() }
		}
	}
	t.Fatal("the child said nothing")
	return nil, "", nil
}

func TestNewDataDirectory(t *testing.T) {
	ctx := context.Background()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "a", "b")} {
		st, release, err := openDataDir(ctx, dir)
		require.NoError(t, err)
		pid, err := os.ReadFile(filepath.Join(dir, "_lancesql", "LOCK"))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintln(os.Getpid()), string(pid))
		format, err := os.ReadFile(filepath.Join(dir, "_lancesql", "FORMAT"))
		require.NoError(t, err)
		require.Equal(t, "1\n", string(format))
		require.NoError(t, st.PutIfAbsent(ctx, "db/t.lance/x", []byte("x")))
		require.NoError(t, release())

		st, release, err = openDataDir(ctx, dir)
		require.NoError(t, err, "opens again")
		_, err = st.Stat(ctx, "db/t.lance/x")
		require.NoError(t, err)
		require.NoError(t, release())
	}
}

func TestLockWithinOneProcess(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	_, release, err := openDataDir(ctx, dir)
	require.NoError(t, err)
	_, _, err = openDataDir(ctx, dir)
	require.ErrorIs(t, err, errs.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", os.Getpid()))
	require.NoError(t, release())
	_, release, err = openDataDir(ctx, dir)
	require.NoError(t, err)
	require.NoError(t, release())
}

func TestLockOfAnotherProcess(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	child, line, leave := openInChild(t, dir)
	require.Equal(t, "locked", line)
	_, _, err := openDataDir(ctx, dir)
	require.ErrorIs(t, err, errs.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", child.Process.Pid))
	leave()
	require.NoError(t, child.Wait())

	child, line, _ = openInChild(t, dir)
	require.Equal(t, "locked", line)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	stale, err := os.ReadFile(filepath.Join(dir, "_lancesql", "LOCK"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(child.Process.Pid), string(stale), "the dead process left its id")
	_, release, err := openDataDir(ctx, dir)
	require.NoError(t, err, "which is no obstacle")

	_, line, _ = openInChild(t, dir)
	require.Contains(t, line, "refused")
	require.Contains(t, line, fmt.Sprintf("process %d", os.Getpid()))
	require.NoError(t, release())
}

func TestNotADataDirectory(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	_, _, err := openDataDir(ctx, file)
	require.ErrorIs(t, err, errs.ErrInvalid)
	_, _, err = openDataDir(ctx, "")
	require.ErrorIs(t, err, errs.ErrInvalid)

	for _, entry := range []string{"photo.jpg", "_lancesql/catalog/x", ".hidden", "db/t.lance/_versions/1.manifest"} {
		dir := t.TempDir()
		name := filepath.Join(dir, filepath.FromSlash(entry))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
		_, _, err := openDataDir(ctx, dir)
		require.ErrorIs(t, err, errs.ErrInvalid, entry)
		require.ErrorContains(t, err, "not a lancesql data directory")
		left := 0
		require.NoError(t, filepath.WalkDir(dir, func(string, os.DirEntry, error) error { left++; return nil }))
		require.Equal(t, 2+strings.Count(entry, "/"), left, "nothing was written beside %s", entry)
	}
}

func TestInterruptedInitialisation(t *testing.T) {
	ctx := context.Background()
	for _, entries := range [][]string{nil, {"_lancesql/"}, {"_lancesql/LOCK"}, {"_lancesql/LOCK", "_lancesql/.tmp0123456789abcdef0123456789abcdef"}, {"lost+found/"}} {
		dir := t.TempDir()
		for _, e := range entries {
			name := filepath.Join(dir, filepath.FromSlash(e))
			if strings.HasSuffix(e, "/") {
				require.NoError(t, os.MkdirAll(name, 0o700))
				continue
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
			require.NoError(t, os.WriteFile(name, []byte("999999999\n"), 0o600))
		}
		_, release, err := openDataDir(ctx, dir)
		require.NoError(t, err, "%v", entries)
		require.NoError(t, release())
		left, err := os.ReadDir(filepath.Join(dir, "_lancesql"))
		require.NoError(t, err)
		require.Len(t, left, 2, "the temporary is swept")
	}
}

func TestFormatNumber(t *testing.T) {
	ctx := context.Background()
	for text, want := range map[string]error{
		"1\n": nil, "1": nil, "2\n": errs.ErrNewerFormat, "4000000000\n": errs.ErrNewerFormat,
		"": errs.ErrCorruption, "0\n": errs.ErrCorruption, "one\n": errs.ErrCorruption, "-1\n": errs.ErrCorruption,
		strings.Repeat("1", 100): errs.ErrCorruption,
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "_lancesql"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "_lancesql", "FORMAT"), []byte(text), 0o600))
		_, release, err := openDataDir(ctx, dir)
		if want == nil {
			require.NoError(t, err, "%q", text)
			require.NoError(t, release())
		} else {
			require.ErrorIs(t, err, want, "%q", text)
		}
	}
}
