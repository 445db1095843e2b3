package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/wire"
)

// maxLine bounds one line of an import.
const maxLine = 64 << 20

func importCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "import [FILE...]",
		Short: "Store events from JSONL files, or from standard input",
		Long: `Store events from JSONL files, one event a line, or from standard input.

Each event passes the same checks and the same policy as one that a client sends; the summary says what was refused and why.
To restore an export without a policy's objections, use --plugins with a folder that holds only open.wasm, and an open.toml with
[config] and every = true in it. The server must not be running on the same data.`,
	}, config.Always|config.Deciding, importFiles)
}

// submitter is the way into the pipeline.
type submitter interface {
	Submit(ctx context.Context, it *host.Item) error
}

// importer counts what becomes of the lines.
type importer struct {
	pipeline submitter
	source   *host.Source
	progress *progress

	mu      sync.Mutex // guards the fields below
	lines   int
	stored  int
	known   int
	held    int
	passing int // ephemeral: nobody listens to an import
	refused map[string]*refusal
	failure error // the host failed
	flying  sync.WaitGroup
}

// refusal counts the lines that were refused for one reason.
type refusal struct {
	count int
	first string // where the first of them stands, "file:line"
}

func importFiles(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, files []string) (err error) {
	core, err := daemon.OpenCore(cmd.Context(), cfg, quietLogger(cmd.ErrOrStderr(), cfg), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, core.Close(context.WithoutCancel(cmd.Context()))) }()
	ctx, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- core.Run(ctx) }()

	im := &importer{
		pipeline: core.Pipeline,
		source:   &host.Source{Origin: host.FromImport},
		progress: newProgress(cmd.ErrOrStderr()),
		refused:  map[string]*refusal{},
	}
	start := time.Now()
	err = im.readAll(cmd, files)
	im.flying.Wait()
	stop()
	err = errors.Join(err, <-stopped, im.failure)
	im.progress.end()
	im.summary(cmd.OutOrStdout(), time.Since(start))
	return err
}

func (im *importer) readAll(cmd *cobra.Command, files []string) error {
	if len(files) == 0 {
		return im.read(cmd.Context(), "stdin", cmd.InOrStdin())
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open the events: %w", err)
		}
		err = im.read(cmd.Context(), name, f)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// read submits each line. It returns early when the host fails or ctx ends.
func (im *importer) read(ctx context.Context, name string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped at %s:%d", name, n)
		}
		if im.failed() {
			return nil
		}
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := im.submit(ctx, fmt.Sprintf("%s:%d", name, n), line); err != nil {
			return fmt.Errorf("submit %s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func (im *importer) submit(ctx context.Context, at string, line []byte) error {
	e, err := wire.ParseEvent(line)
	if err != nil {
		im.count(at, host.Verdict{Code: host.Rejected, Reason: err.Error()}, nil)
		return nil
	}
	im.flying.Add(1)
	err = im.pipeline.Submit(ctx, &host.Item{Event: e, Source: im.source, Done: func(v host.Verdict, err error) {
		im.count(at, v, err)
		im.flying.Done()
	}})
	if err != nil {
		im.flying.Done()
	}
	return err
}

func (im *importer) failed() bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.failure != nil
}

func (im *importer) count(at string, v host.Verdict, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.lines++
	switch {
	case err != nil:
		if im.failure == nil {
			im.failure = fmt.Errorf("store %s: %w", at, err)
		}
	case v.Code == host.Stored:
		im.stored++
	case v.Code == host.Duplicate || v.Code == host.Replaced:
		im.known++
	case v.Code == host.Held:
		im.held++
	case v.Code == host.Relayed:
		im.passing++
	default:
		reason := v.Reason
		if reason == "" {
			reason = v.Code.String()
		}
		r := im.refused[reason]
		if r == nil {
			// Reasons may quote their event; a hostile file must not fill memory.
			if len(im.refused) >= 1000 {
				reason = "other reasons"
			}
			if r = im.refused[reason]; r == nil {
				r = &refusal{first: at}
				im.refused[reason] = r
			}
		}
		r.count++
	}
	im.progress.show(func() string {
		return fmt.Sprintf("%d lines, %d stored, %d known already", im.lines, im.stored, im.known)
	})
}

func (im *importer) summary(w io.Writer, took time.Duration) {
	refused := 0
	for _, r := range im.refused {
		refused += r.count
	}
	waiting := ""
	if im.held > 0 {
		waiting = fmt.Sprintf("%d wait for their git data, ", im.held)
	}
	fmt.Fprintf(w, "%d events in %v: %d stored, %s%d known already, %d ephemeral and not kept, %d refused\n",
		im.lines, took.Round(time.Millisecond), im.stored, waiting, im.known, im.passing, refused)
	reasons := slices.SortedFunc(maps.Keys(im.refused), func(a, b string) int {
		if n := im.refused[b].count - im.refused[a].count; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, reason := range reasons {
		fmt.Fprintf(w, "%8d  %s (first at %s)\n", im.refused[reason].count, reason, im.refused[reason].first)
	}
}
