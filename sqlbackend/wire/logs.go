package wire

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/sirupsen/logrus"
)

// BridgeLogs sends what the frontend logs to l: its logrus messages of level Warn and above as they are, the standard
// logger's (the protocol library's) as Debug, but panics as Error. Both loggers are process-wide: the last call wins.
func BridgeLogs(l *slog.Logger) {
	std := logrus.StandardLogger()
	std.SetOutput(io.Discard)
	std.SetLevel(logrus.WarnLevel)
	hooks := logrus.LevelHooks{}
	hooks.Add(logrusHook{l})
	std.ReplaceHooks(hooks)
	log.SetFlags(0)
	log.SetOutput(lineWriter{l})
}

type logrusHook struct{ log *slog.Logger }

// Levels implements logrus.Hook.
func (logrusHook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (h logrusHook) Fire(e *logrus.Entry) error {
	level := slog.LevelDebug
	switch e.Level {
	case logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel:
		level = slog.LevelError
		if isOfClient(e.Message) {
			level = slog.LevelDebug
		}
	case logrus.WarnLevel:
		level = slog.LevelWarn
	}
	attrs := make([]any, 0, 2*len(e.Data)+2)
	attrs = append(attrs, "text", e.Message)
	for k, v := range e.Data {
		attrs = append(attrs, k, v)
	}
	h.log.Log(context.Background(), level, "frontend", attrs...)
	return nil
}

// isOfClient reports whether a message is about a client that left, or sent what is not allowed: the protocol library
// calls all of it an error, but nobody has to act.
func isOfClient(text string) bool {
	for _, start := range []string{
		"Error in the middle of a stream", "Error writing", "Error reading packet", "Error while parsing prepared statement",
		"Got unhandled packet", "Commands were executed in an improper order", "Received ComStmt", "Requested stmtID", "Unable to parse",
		"unable to prepare query", "unable to process ComInitDB", "ComInitDB failed", "error parsing statement", "got wrong statement id",
		"invalid parameter Number", "error splitting query", "Cannot parse client handshake response",
	} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return strings.Contains(text, "Flush() failed")
}

type lineWriter struct{ log *slog.Logger }

// Write implements io.Writer for the standard logger: one call is one message.
func (w lineWriter) Write(p []byte) (int, error) {
	level := slog.LevelDebug
	if strings.Contains(string(p), "caught panic") {
		level = slog.LevelError
	}
	w.log.Log(context.Background(), level, "protocol", "text", strings.TrimSpace(string(p)))
	return len(p), nil
}
