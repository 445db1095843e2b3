package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
	"talon/sdk/abi/manifest"
)

// runOptions are the options of the commands that run modules without a relay.
type runOptions struct {
	sidecar string
	facts   string
	now     int64
	cmd     *cobra.Command

	service *manifest.VectorService // that lines name
	stdin   io.Reader               // nil: nothing was read of it
}

func (b *runOptions) flags(cmd *cobra.Command) {
	b.cmd = cmd
	cmd.Flags().StringVar(&b.sidecar, "sidecar", "", "the settings and sets, as in a relay's folder: a `file` (default NAME.toml next to NAME.wasm)")
	cmd.Flags().StringVar(&b.facts, "facts", "", "stored events of the relay, one a line: a `file`")
}

func (b *runOptions) clockFlag(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&b.now, "now", 0, "the time of each decision, in unix `seconds` (default that of the event)")
}

const questionsHelp = `A line of FILE.jsonl is an event, as talon export writes it; or a vector, without "want" if it pleases; or what strfry
writes to a plugin. FILE.jsonl may be "-", standard input. MODULE is a .wasm file, or a folder, which is built first; without it,
the folder in which you are.`

// find finds a module, and what that finds when it runs.
func (b *runOptions) find(path string) (*author.Source, author.Options, error) {
	source, err := author.Find(b.cmd.Context(), path, b.sidecar, b.cmd.ErrOrStderr())
	if err != nil {
		return nil, author.Options{}, err
	}
	o, err := b.options()
	return source, o, err
}

func (b *runOptions) options() (o author.Options, err error) {
	o.Log = moduleLog(b.cmd.ErrOrStderr())
	o.Service = b.service
	if b.facts == "" {
		return o, nil
	}
	err = b.open(b.facts, func(r io.Reader) error {
		o.Store, err = author.ReadEvents(b.facts, r)
		return err
	})
	return o, err
}

// runner starts a module.
func (b *runOptions) runner(path string) (*author.Runner, error) {
	source, o, err := b.find(path)
	if err != nil {
		return nil, err
	}
	return source.Run(b.cmd.Context(), o)
}

// questions calls f for each line of a file.
func (b *runOptions) questions(file string, f func(*author.Case) error) error {
	if b.now < 0 {
		return fmt.Errorf("now is %d: want unix seconds", b.now)
	}
	return b.open(file, func(r io.Reader) error {
		return author.Clock{Now: b.now}.Questions(file, r, func(q *author.Case) error {
			if err := b.cmd.Context().Err(); err != nil {
				return err
			}
			if s := q.Vector.Service; q.Recorded != nil && s != nil && (b.service == nil || *s != *b.service) {
				return fmt.Errorf("%s: this line is of another relay than the first: give each its own file", q.Where)
			}
			if q.Vector.Config != nil {
				return fmt.Errorf("%s: a line with settings of its own is for talon plugin test: here they are those of the side-car", q.Where)
			}
			return f(q)
		})
	})
}

// meet finds out how the relay is reached that the lines of a file are of: the first
// one says it, if they are a recording. It comes before the modules.
func (b *runOptions) meet(file string) error {
	return b.open(file, func(r io.Reader) error {
		var rest io.Reader
		if b.service, rest = author.ServiceOf(r); file == "-" {
			b.stdin = rest
		}
		return nil
	})
}

func (b *runOptions) open(file string, f func(io.Reader) error) error {
	switch {
	case file == "-" && b.stdin != nil:
		return f(b.stdin)
	case file == "-":
		return f(b.cmd.InOrStdin())
	}
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r)
}

// moduleAndFile tells [MODULE] FILE apart.
func moduleAndFile(args []string) (module, file string) {
	if len(args) == 1 {
		return ".", args[0]
	}
	return args[0], args[1]
}

// moduleLog writes what modules say.
func moduleLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
