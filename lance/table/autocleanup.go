package table

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lancesql/internal/errs"
)

// The configuration by which a table asks its writers to clean up. Spec: table format, "Configuration".
const (
	// KeyAutoCleanupInterval: clean up after each commit whose version is a multiple.
	KeyAutoCleanupInterval = "lance.auto_cleanup.interval"
	// KeyAutoCleanupOlderThan: the age from which versions go, such as "14days" or "1h 30m".
	KeyAutoCleanupOlderThan = "lance.auto_cleanup.older_than"
	// KeyAutoCleanupRetain: how many of the newest versions stay whatever their age.
	KeyAutoCleanupRetain = "lance.auto_cleanup.retain_versions"
)

// AutoCleanup does what the table's configuration asks of a writer that has just committed this version: nothing, or a
// clean-up. The reference runs it by itself; here the writer calls it, because only the writer knows who still reads old
// versions. errs.ErrInvalid for settings that are not understood; nothing is removed then. Returns as Cleanup.
func (d *Dataset) AutoCleanup(ctx context.Context) (removed []string, err error) {
	due, age, retain, err := d.autoCleanup()
	if err != nil {
		return nil, fmt.Errorf("automatic clean-up of %s: %w", d.root, err)
	}
	if !due {
		return nil, nil
	}
	before := d.env.clock.Now().Add(-age)
	keep := func(version uint64, committed time.Time) bool {
		return !committed.Before(before) || version+retain > d.Version()
	}
	return CleanupWith(ctx, d.env.st, d.root, keep, d.env.clock)
}

// autoCleanup reads the settings. Without an age and a number to retain nothing is due.
func (d *Dataset) autoCleanup() (due bool, age time.Duration, retain uint64, err error) {
	config := d.state.m.Config
	text, ok := config[KeyAutoCleanupInterval]
	if !ok {
		return false, 0, 0, nil
	}
	interval, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false, 0, 0, fmt.Errorf("%s is %q: %w", KeyAutoCleanupInterval, text, errs.ErrInvalid)
	}
	older, hasAge := config[KeyAutoCleanupOlderThan]
	if hasAge {
		if age, err = parseAge(older); err != nil {
			return false, 0, 0, fmt.Errorf("%s is %q: %w", KeyAutoCleanupOlderThan, older, err)
		}
	}
	count, hasCount := config[KeyAutoCleanupRetain]
	if hasCount {
		if retain, err = strconv.ParseUint(count, 10, 32); err != nil {
			return false, 0, 0, fmt.Errorf("%s is %q: %w", KeyAutoCleanupRetain, count, errs.ErrInvalid)
		}
	}
	return interval > 0 && d.Version()%interval == 0 && (hasAge || hasCount), age, retain, nil
}

// parseAge reads a duration as the reference writes it: numbers, each with its unit, with spaces anywhere between.
func parseAge(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	units := []struct {
		names string
		unit  time.Duration
	}{
		{"nanos nsec ns", 1}, {"usec us µs", time.Microsecond}, {"millis msec ms", time.Millisecond},
		{"seconds second secs sec s", time.Second}, {"minutes minute min mins m", time.Minute},
		{"hours hour hrs hr h", time.Hour}, {"days day d", day}, {"weeks week wk wks w", 7 * day},
		{"months month M", 2_630_016 * time.Second}, {"years year y yr yrs", 31_557_600 * time.Second},
	}
	var sum time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, errs.ErrInvalid
	}
	for rest != "" {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = strings.TrimSpace(rest[len(digits):])
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool { return r > '9' && r != ' ' }))]
		rest = strings.TrimSpace(rest[len(name):])
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || name == "" {
			return 0, errs.ErrInvalid
		}
		unit := time.Duration(0)
		for _, u := range units {
			for known := range strings.FieldsSeq(u.names) {
				if known == name {
					unit = u.unit
				}
			}
		}
		if unit == 0 || n > int64((1<<63-1-sum)/unit) {
			return 0, errs.ErrInvalid
		}
		sum += time.Duration(n) * unit
	}
	return sum, nil
}
