package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lancesql/internal/clock"
	"lancesql/internal/objstore"
	"lancesql/lsm"
)

// setAside moves damage, and everything behind it, out of the way. The account of what is lost is written first; a crash
// at any step leaves either damage, so that it is done again, or a log that ends before it.
func (r *recoverTool) setAside() error {
	clk := r.clock
	if clk == nil {
		clk = clock.System()
	}
	r.out.Aside = quarantineDir + "/" + clk.Now().UTC().Format("20060102T150405.000000000")
	account := filepath.Join(r.file(r.out.Aside), "loss.txt")
	if err := os.MkdirAll(filepath.Dir(account), 0o755); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	lines := r.loss()
	for _, line := range lines {
		r.o.Report(line)
	}
	if err := writeSynced(account, strings.NewReader(strings.Join(lines, "\n")+"\n")); err != nil {
		return err
	}
	for _, w := range r.wals {
		for _, s := range w.shards {
			if s.Damage == nil {
				continue
			}
			if err := r.setAsideWAL(w.entry, s); err != nil {
				return fmt.Errorf("set aside the WAL of %s: %w", w.entry.Path, err)
			}
			r.cut = append(r.cut, w.entry.ID)
		}
	}
	if r.journal.Damage != nil {
		if err := r.setAsideJournal(); err != nil {
			return fmt.Errorf("set aside the journal: %w", err)
		}
	}
	r.o.Report("set aside in " + r.out.Aside)
	aside := r.out.Aside
	err := r.survey()
	r.out.Aside = aside
	return err
}

// file is the path of an object.
func (r *recoverTool) file(object string) string {
	return filepath.Join(r.dir, filepath.FromSlash(object))
}

// setAsideWAL moves the entries from the damage on. Why the last one first: what is left at any moment has no new hole.
func (r *recoverTool) setAsideWAL(t *TableEntry, s lsm.WALState) error {
	for _, e := range slices.Backward(s.Damage.Lost) {
		if err := moveSynced(r.file(e.Object), r.file(r.out.Aside+"/"+e.Object)); err != nil {
			return err
		}
	}
	st, err := objstore.OpenDisk(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(lsm.ForgetWALTail(r.ctx, st, t.Path, s.Shard, s.Damage.Position-1), st.Close())
}

// setAsideJournal moves the segments behind the damage, the last one first, then cuts the damaged one.
func (r *recoverTool) setAsideJournal() error {
	d := r.journal.Damage
	name := func(slot int) string { return journalDir + "/" + strconv.Itoa(slot) + ".log" }
	for _, slot := range slices.Backward(d.Later) {
		if err := moveSynced(r.file(name(slot)), r.file(r.out.Aside+"/"+name(slot))); err != nil {
			return err
		}
	}
	if d.Offset == 0 {
		return moveSynced(r.file(name(d.Slot)), r.file(r.out.Aside+"/"+name(d.Slot)))
	}
	f, err := os.OpenFile(r.file(name(d.Slot)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = copySynced(f, r.file(r.out.Aside+"/"+name(d.Slot)))
	if err == nil {
		err = zeroFrom(f, d.Offset)
	}
	return errors.Join(err, f.Close())
}

// zeroFrom overwrites a file with zeros from off on, durably.
func zeroFrom(f *os.File, off int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for ; off < info.Size(); off += int64(len(piece)) {
		n := min(int64(len(piece)), info.Size()-off)
		if _, err := f.WriteAt(piece[:n], off); err != nil {
			return err
		}
	}
	return f.Sync()
}

func copySynced(f *os.File, to string) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return writeSynced(to, f)
}

// writeSynced makes a new file, durably.
func writeSynced(to string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), syncDirs(filepath.Dir(to)))
}

// moveSynced moves a file inside the data directory, durably.
func moveSynced(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncDirs(filepath.Dir(to)), syncDirs(filepath.Dir(from)))
}

func syncDirs(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
