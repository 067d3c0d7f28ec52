package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"gopkg.in/yaml.v3"

	"lancesql/engine"
	"lancesql/sqlbackend"
)

// options are the settings of `lancesql serve`; the tags are the keys of the configuration file.
type options struct {
	DataDir  string `yaml:"data_dir"`
	Addr     string `yaml:"addr"`
	Socket   string `yaml:"socket"`
	LogLevel string `yaml:"log_level"`

	ReadOnly  bool          `yaml:"read_only"`
	Staleness time.Duration `yaml:"read_only_staleness"`

	MaxConnections int `yaml:"max_connections"`

	TLS     string `yaml:"tls"`
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`

	MemTableRows          uint64        `yaml:"memtable_rows"`
	MemTableBytes         uint64        `yaml:"memtable_bytes"`
	FrozenSoft            int           `yaml:"frozen_soft"`
	FrozenHard            int           `yaml:"frozen_hard"`
	GenerationsSoft       int           `yaml:"generations_soft"`
	GenerationsHard       int           `yaml:"generations_hard"`
	MergeAfterGenerations int           `yaml:"merge_after_generations"`
	CommitGroupBytes      int           `yaml:"commit_group_bytes"`
	CommitGroupTxns       int           `yaml:"commit_group_transactions"`
	UnflushedWALBytes     uint64        `yaml:"unflushed_wal_bytes"`
	Workers               int           `yaml:"workers"`
	LockWaitTimeout       time.Duration `yaml:"lock_wait_timeout"`
	ManifestRetention     time.Duration `yaml:"manifest_retention"`
	GenerationGrace       time.Duration `yaml:"generation_grace"`

	FlushLogAtCommit    *int           `yaml:"innodb_flush_log_at_trx_commit"`
	WALAck              string         `yaml:"wal_ack"`
	JournalSegmentBytes int64          `yaml:"journal_segment_bytes"`
	JournalBytes        int64          `yaml:"journal_bytes"`
	WriteBehindDelay    time.Duration  `yaml:"write_behind_delay"`
	WriteBehindBytes    int64          `yaml:"write_behind_bytes"`
	Freshness           *time.Duration `yaml:"lancesql_freshness"`
}

// errHelp says that the flags asked for help, which was printed.
var errHelp = errors.New("help was asked for")

// parseOptions reads flags and the configuration file they name.
func parseOptions(args []string, stdout io.Writer) (options, error) {
	o := options{DataDir: "./data", Addr: "127.0.0.1:3306", LogLevel: "warn"}
	var flags options
	var config string
	set := flag.NewFlagSet("lancesql serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&flags.DataDir, "data-dir", o.DataDir, "directory that holds the databases; created if absent")
	set.StringVar(&flags.Addr, "addr", o.Addr, "host:port to listen on; empty for none")
	set.StringVar(&flags.Socket, "socket", "", "path of a unix socket to listen on as well")
	set.StringVar(&flags.TLS, "tls", "", "auto: for clients that ask for it; off: never; required: always (default auto)")
	set.StringVar(&flags.TLSCert, "tls-cert", "", "PEM file of the server's certificate; without it one is made at each start")
	set.StringVar(&flags.TLSKey, "tls-key", "", "PEM file of the certificate's key")
	set.StringVar(&config, "config", "", "YAML file with settings; flags win over it")
	set.BoolVar(&flags.ReadOnly, "read-only", false, "read a data directory that another process may be writing")
	set.StringVar(&flags.LogLevel, "log-level", o.LogLevel, "debug, info, warn or error")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		set.SetOutput(stdout)
		fmt.Fprintln(stdout, "lancesql serve runs the server. Flags:")
		set.PrintDefaults()
		return o, errHelp
	} else if err != nil {
		return o, fmt.Errorf("%w; try lancesql serve --help", err)
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; try lancesql serve --help", set.Arg(0))
	}
	if config != "" {
		if err := o.read(config); err != nil {
			return o, fmt.Errorf("configuration file %s: %w", config, err)
		}
	}
	set.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "data-dir":
			o.DataDir = flags.DataDir
		case "addr":
			o.Addr = flags.Addr
		case "socket":
			o.Socket = flags.Socket
		case "tls":
			o.TLS = flags.TLS
		case "tls-cert":
			o.TLSCert = flags.TLSCert
		case "tls-key":
			o.TLSKey = flags.TLSKey
		case "read-only":
			o.ReadOnly = flags.ReadOnly
		case "log-level":
			o.LogLevel = flags.LogLevel
		}
	})
	return o, o.validate()
}

// read fills o from a YAML file; unknown keys are errors.
func (o *options) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(o); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (o *options) validate() error {
	if o.DataDir == "" {
		return errors.New("no data directory")
	}
	if o.Addr == "" && o.Socket == "" {
		return errors.New("neither an address nor a socket to listen on")
	}
	if o.MaxConnections < 0 {
		return fmt.Errorf("max_connections %d is negative", o.MaxConnections)
	}
	if _, err := o.level(); err != nil {
		return err
	}
	if n := o.FlushLogAtCommit; n != nil && (*n < 0 || *n > 2) {
		return fmt.Errorf("innodb_flush_log_at_trx_commit %d is not 0, 1 or 2", *n)
	}
	if o.WALAck != "" && o.WALAck != "journal" && o.WALAck != "entry" {
		return fmt.Errorf("wal_ack %q is not journal or entry", o.WALAck)
	}
	return errors.Join(o.server().Validate(), o.engine().Validate())
}

func (o *options) level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(o.LogLevel)); err != nil {
		return 0, fmt.Errorf("log level %q is not one of debug, info, warn, error", o.LogLevel)
	}
	return l, nil
}

func (o *options) engine() engine.Config {
	c := engine.Config{
		DataDir:      o.DataDir,
		MemTableRows: o.MemTableRows, MemTableBytes: o.MemTableBytes,
		FrozenSoft: o.FrozenSoft, FrozenHard: o.FrozenHard,
		GenerationsSoft: o.GenerationsSoft, GenerationsHard: o.GenerationsHard,
		MergeAfterGenerations: o.MergeAfterGenerations,
		LockWaitTimeout:       o.LockWaitTimeout,
		CommitGroupBytes:      o.CommitGroupBytes, CommitGroupTxns: o.CommitGroupTxns,
		Workers:           o.Workers,
		ManifestRetention: o.ManifestRetention, GenerationGrace: o.GenerationGrace,
		UnflushedWALBytes: o.UnflushedWALBytes,
		Staleness:         o.Staleness,

		JournalSegmentBytes: o.JournalSegmentBytes, JournalBytes: o.JournalBytes,
		WriteBehindDelay: o.WriteBehindDelay, WriteBehindBytes: o.WriteBehindBytes,
	}
	if n := o.FlushLogAtCommit; n != nil && *n != 1 {
		c.Durability = engine.SyncEverySecond
	}
	if o.WALAck == "entry" {
		c.WALAck = engine.AckEntry
	}
	if f := o.Freshness; f != nil {
		c.Freshness = *f
		if *f == 0 {
			c.Freshness = engine.NoFreshness
		}
	}
	return c
}

func (o *options) server() sqlbackend.ServerConfig {
	return sqlbackend.ServerConfig{
		Addr: o.Addr, Socket: o.Socket, MaxConnections: o.MaxConnections, TLS: sqlbackend.TLSMode(o.TLS), TLSCert: o.TLSCert, TLSKey: o.TLSKey,
	}
}
