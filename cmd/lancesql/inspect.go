package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lancesql/engine"
	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/inspect"
	"lancesql/lsm"
)

// inspectTriesMax bounds how often a look is taken again because a writer removed what was about to be read.
const inspectTriesMax = 5

// inspectPath prints what is inside the thing args name. An error of the report, if it has any, is returned after the
// report was printed.
func inspectPath(args []string, stdout io.Writer) error {
	target, asJSON, err := parseInspect(args, stdout)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx := context.Background()
	var r *inspect.Report
	for try := 1; ; try++ {
		if r, err = look(ctx, target); err != nil {
			return fmt.Errorf("inspect %s: %w", target, err)
		}
		if !r.Missing() || try == inspectTriesMax {
			break
		}
	}
	write := r.WriteText
	if asJSON {
		write = r.WriteJSON
	}
	if err := write(stdout); err != nil {
		return fmt.Errorf("inspect %s: %w", target, err)
	}
	if n := len(r.Problems); n > 1 {
		return fmt.Errorf("inspect %s: %w (and %d more problems)", target, r.Err(), n-1)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("inspect %s: %w", target, err)
	}
	return nil
}

// parseInspect reads the command line; flags may stand before and after the path.
func parseInspect(args []string, stdout io.Writer) (target string, asJSON bool, err error) {
	set := flag.NewFlagSet("lancesql inspect", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.BoolVar(&asJSON, "json", false, "print JSON")
	for rest := args; len(rest) > 0; {
		if err := set.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, inspectUsage)
			return "", false, errHelp
		} else if err != nil {
			return "", false, fmt.Errorf("%w; try lancesql inspect --help", err)
		}
		if rest = set.Args(); len(rest) == 0 {
			break
		}
		if target != "" {
			return "", false, fmt.Errorf("unexpected argument %q; try lancesql inspect --help", rest[0])
		}
		target, rest = rest[0], rest[1:]
	}
	if target == "" {
		return "", false, errors.New("no path to inspect; try lancesql inspect --help")
	}
	return target, asJSON, nil
}

const inspectUsage = `lancesql inspect PATH [--json] shows what is inside PATH, which may be
  a table (a directory like shop/orders.lance), with its files and MemWAL state
  a data file (*.lance, *.idx), manifest (*.manifest), transaction (*.txn) or deletion file (*.bin, *.arrow)
  a WAL entry (*.arrow) or shard manifest (*.binpb)
  a data directory of lancesql: its databases and tables in brief
It only reads, and may run beside a server. The code is 1 if anything is damaged.
`

// look takes one look at target.
func look(ctx context.Context, target string) (*inspect.Report, error) {
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return lookAtFile(ctx, readStore{filepath.Dir(target)}, filepath.Base(target))
	}
	st := readStore{target}
	base := filepath.Base(target)
	if full, err := filepath.Abs(target); err == nil { // Why: "." has a name too
		base = filepath.Base(full)
	}
	format, err := engine.ReadFormat(ctx, st)
	if err == nil || !errors.Is(err, errs.ErrNotFound) {
		r := inspect.NewReport(base, inspect.KindDataDirectory)
		r.Add(err)
		lookAtDirectory(ctx, st, format, r)
		return r, nil
	}
	ok, err := inspect.IsDataset(ctx, st, "")
	if err != nil {
		return nil, err
	}
	if !ok && !strings.HasSuffix(base, ".lance") {
		return nil, fmt.Errorf("neither a table nor a data directory: %w", errs.ErrInvalid)
	}
	r := inspect.NewReport(base, inspect.KindDataset)
	r.InspectDataset(ctx, st, "")
	lsm.InspectShards(ctx, st, "", r)
	return r, nil
}

func lookAtFile(ctx context.Context, st readStore, name string) (*inspect.Report, error) {
	kind, err := inspect.KindOfFile(ctx, st, name)
	if err != nil {
		return nil, err
	}
	r := inspect.NewReport(name, kind)
	switch kind {
	case inspect.KindDataFile:
		r.InspectDataFile(ctx, st, name)
	case inspect.KindManifest:
		r.InspectManifest(ctx, st, name)
	case inspect.KindTransaction:
		r.InspectTransaction(ctx, st, name)
	case inspect.KindDeletions:
		r.InspectDeletions(ctx, st, name)
	case inspect.KindWALEntry:
		lsm.InspectWALEntry(ctx, st, name, r)
	case inspect.KindShardManifest:
		lsm.InspectShardManifest(ctx, st, name, r)
	default:
		return nil, fmt.Errorf("not a file of a Lance table: %w", errs.ErrInvalid)
	}
	return r, nil
}

// lookAtDirectory lists databases and tables of a data directory: those of the catalog or, if it cannot be read, the
// directories there are.
func lookAtDirectory(ctx context.Context, st readStore, format string, r *inspect.Report) {
	d := &inspect.DataDirectory{FormatVersion: format, Databases: []inspect.Database{}}
	r.DataDirectory = d
	catalog, err := engine.ReadCatalog(ctx, st)
	if err != nil {
		r.Add(err)
		d.Databases = append(d.Databases, foundDatabases(ctx, st, r)...)
		return
	}
	d.CatalogVersion = catalog.Version
	for _, db := range catalog.Databases() {
		out := inspect.Database{Name: db.Name, Tables: []inspect.TableSummary{}}
		for _, t := range db.Tables() {
			out.Tables = append(out.Tables, summarize(ctx, st, t.Name, t.Path, r))
		}
		d.Databases = append(d.Databases, out)
	}
}

// foundDatabases lists directories in the place of databases and tables, by their names on disk.
func foundDatabases(ctx context.Context, st readStore, r *inspect.Report) []inspect.Database {
	var out []inspect.Database
	r.Add(st.List(ctx, "", func(i objstore.Info) error {
		if base := path.Base(i.Name); !i.Dir || base[0] == '.' || strings.HasPrefix(base, "_") {
			return nil
		}
		db := inspect.Database{Name: i.Name, Tables: []inspect.TableSummary{}}
		r.Add(st.List(ctx, i.Name, func(t objstore.Info) error {
			if name, ok := strings.CutSuffix(path.Base(t.Name), ".lance"); ok && t.Dir {
				db.Tables = append(db.Tables, summarize(ctx, st, name, t.Name, r))
			}
			return nil
		}))
		out = append(out, db)
		return nil
	}))
	return out
}

func summarize(ctx context.Context, st readStore, name, root string, r *inspect.Report) inspect.TableSummary {
	t := inspect.TableSummary{Name: name, Path: root}
	if s := r.Summarize(ctx, st, root); s != nil {
		t.Summary = *s
	}
	t.Shards = lsm.SummarizeShards(ctx, st, root, r)
	return t
}
