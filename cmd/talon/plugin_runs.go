package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
	"talon/sdk/abi/manifest"
)

// workbench are the options of the commands that run modules without a relay.
type workbench struct {
	sidecar string
	facts   string
	now     int64
	cmd     *cobra.Command

	service *manifest.VectorService // that lines name
	stdin   io.Reader               // nil: nothing was read of it
}

func (b *workbench) flags(cmd *cobra.Command) {
	b.cmd = cmd
	cmd.Flags().StringVar(&b.sidecar, "sidecar", "", "the settings and sets, as in a relay's folder (default NAME.toml beside NAME.wasm): a `file`")
	cmd.Flags().StringVar(&b.facts, "facts", "", "what the relay has stored, one event a line: a `file`")
}

func (b *workbench) clockFlag(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&b.now, "now", 0, "the time of each decision, in unix `seconds` (default that of the event)")
}

const questionsHelp = `A line of FILE.jsonl is an event, as talon export writes it; or a vector, without "want" if it pleases; or what strfry
writes to a plugin. FILE.jsonl may be "-", standard input. MODULE is a .wasm file, or a folder, which is built first; without it,
the folder in which you are.`

// find finds a module, and what that finds when it runs.
func (b *workbench) find(path string) (*author.Source, author.Options, error) {
	source, err := author.Find(b.cmd.Context(), path, b.sidecar, b.cmd.ErrOrStderr())
	if err != nil {
		return nil, author.Options{}, err
	}
	o, err := b.options()
	return source, o, err
}

func (b *workbench) options() (o author.Options, err error) {
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
func (b *workbench) runner(path string) (*author.Runner, error) {
	source, o, err := b.find(path)
	if err != nil {
		return nil, err
	}
	return source.Run(b.cmd.Context(), o)
}

// questions calls f for each line of a file.
func (b *workbench) questions(file string, f func(*author.Case) error) error {
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
func (b *workbench) meet(file string) error {
	return b.open(file, func(r io.Reader) error {
		var rest io.Reader
		if b.service, rest = author.ServiceOf(r); file == "-" {
			b.stdin = rest
		}
		return nil
	})
}

func (b *workbench) open(file string, f func(io.Reader) error) error {
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

func pluginRunCommand() *cobra.Command {
	var bench workbench
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "run [MODULE] FILE.jsonl",
		Short: "Show what a module says of events, and what each verdict costs",
		Long: `Show the verdict of a module about each line of a file, and the fuel that it cost. The module remembers from line to line.
Events are not verified.

` + questionsHelp,
		Example: `  talon export --data ./data > events.jsonl && talon plugin run events.jsonl
  talon plugin run words.wasm --sidecar words.toml --facts stored.jsonl events.jsonl`,
		Args: cobra.RangeArgs(1, 2),
	}
	bench.flags(cmd)
	bench.clockFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a line of JSON for each")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "only the sums")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		module, file := moduleAndFile(args)
		if err := bench.meet(file); err != nil {
			return quoted(err)
		}
		r, err := bench.runner(module)
		if err != nil {
			return quoted(err)
		}
		defer r.Close()
		out := cmd.OutOrStdout()
		var tally author.Stats
		if !asJSON && !quiet {
			fmt.Fprintf(out, runFormat, "VERDICT", "FUEL", "LINE", "REASON")
		}
		err = bench.questions(file, func(q *author.Case) error {
			a := r.Ask(cmd.Context(), q)
			tally.Add(q, &a)
			switch {
			case asJSON:
				return json.NewEncoder(out).Encode(ranAs(q, &a))
			case !quiet:
				_, err := fmt.Fprintf(out, runFormat, plain(a.Verdict()), fmt.Sprint(a.Fuel), plain(q.Where), plain(a.Said()))
				return err
			}
			return nil
		})
		if err != nil {
			return quoted(err)
		}
		if !asJSON {
			writeTally(out, &tally)
		}
		if tally.Failed > 0 {
			return quoted(fmt.Errorf("no verdict about %d of %d, first %s", tally.Failed, tally.Asked, tally.FirstFailure))
		}
		return nil
	}
	return cmd
}

const runFormat = "%-24s  %9s  %s  %s\n"

// ran is one line of talon plugin run --json.
type ran struct {
	Where  string `json:"where"`
	Event  string `json:"event,omitempty"`
	Action string `json:"action,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Fuel   int64  `json:"fuel"`
	Error  string `json:"error,omitempty"`
}

func ranAs(q *author.Case, a *author.Answer) ran {
	line := ran{Where: q.Where, Event: q.Event(), Fuel: a.Fuel}
	if a.Err != nil {
		line.Error = a.Err.Error()
		return line
	}
	line.Action, line.Rule, line.Reason = a.Action.String(), a.Rule, a.Reason
	return line
}

func writeTally(w io.Writer, t *author.Stats) {
	p50, p99, limit := t.Fuel()
	fmt.Fprintf(w, "\n%s; fuel p50 %d, p99 %d, most %d\n", counted(t.Asked, "line"), p50, p99, limit)
	for _, c := range t.Verdicts() {
		fmt.Fprintf(w, "%9d  %s\n", c.Count, plain(c.Verdict))
	}
}

// vectorsFile is what a folder has vectors in, beside those of its manifest.
const vectorsFile = "vectors.jsonl"

func pluginTestCommand() *cobra.Command {
	var bench workbench
	var native bool
	cmd := &cobra.Command{
		Use:   "test [MODULE] [VECTORS.jsonl...]",
		Short: "Test a module as a relay would, and with vectors",
		Long: `Test a module: what a relay asks before it lets a module decide, by compiled code and by an interpreter, with the vectors
of the manifest; then the vectors of files, one a line, ` + vectorsFile + ` beside the module if none is named. A line is a vector as
manifests have them, where "function" and "name" may be absent. With "then": true it goes on where the line before ended, with all
that the module remembers; else it begins anew, with the settings that it names.
MODULE is a .wasm file, or a folder, which is built first; without it, the folder in which you are.`,
		Example: `  talon plugin test
  talon plugin test words.wasm vectors.jsonl`,
	}
	bench.flags(cmd)
	cmd.Flags().BoolVar(&native, "native", false, "run the unit tests of a folder in Go too, as go test ./... does")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		module := "."
		if len(args) > 0 && !strings.HasSuffix(args[0], ".jsonl") {
			module, args = args[0], args[1:]
		}
		return quoted(bench.test(module, args, native))
	}
	return cmd
}

func (b *workbench) test(path string, files []string, native bool) error {
	source, o, err := b.find(path)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		file := filepath.Join(filepath.Dir(source.File), vectorsFile)
		switch _, err := os.Stat(file); {
		case err == nil:
			files = append(files, file)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	var vectors []*author.Case
	for _, file := range files {
		err := b.open(file, func(r io.Reader) error {
			list, err := source.ReadVectors(file, r)
			vectors = append(vectors, list...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.ask(source, vectors, o, native)
}

// ask tests and reports.
func (b *workbench) ask(source *author.Source, vectors []*author.Case, o author.Options, native bool) error {
	w := b.cmd.OutOrStdout()
	good, bad := 0, 0
	own := len(source.Manifest.Vectors)
	if err := source.SelfTest(b.cmd.Context()); err != nil {
		if b.cmd.Context().Err() != nil {
			return err
		}
		bad++
		fmt.Fprintf(w, "FAIL  %s: %s\n", plain(source.File), plain(err.Error()))
	} else {
		good += own
		fmt.Fprintf(w, "ok    %s: the relay's own checks, and %s of the manifest\n", plain(source.File), counted(own, "vector"))
	}
	if len(vectors) > 0 {
		err := source.Test(b.cmd.Context(), vectors, o, func(t author.Tested) {
			if t.Err != nil {
				bad++
				fmt.Fprintf(w, "FAIL  %s: %s\n", plain(t.Where), plain(t.Err.Error()))
				return
			}
			good++
			fmt.Fprintf(w, "ok    %s: %s (fuel %d)\n", plain(t.Where), plain(t.Name), t.Fuel)
		})
		if err != nil {
			return err
		}
	}
	if native {
		if err := author.Native(b.cmd.Context(), filepath.Dir(source.File), w); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s failed, %d passed", counted(bad, "test"), good)
	}
	if good == 0 && !native {
		hint := ""
		if author.HasNative(filepath.Dir(source.File)) {
			hint = "; its own unit tests run with --native"
		}
		fmt.Fprintf(w, "there are no vectors: nothing was asked but whether the module answers at all%s\n", hint)
	}
	return nil
}

func pluginExecCommand() *cobra.Command {
	var bench workbench
	pass := "accept"
	cmd := &cobra.Command{
		Use:   "exec MODULE",
		Short: "Be a plugin of strfry that decides by a module",
		Long: `Be a plugin of strfry: read one event a line as JSON from standard input, write the module's verdict as JSON to standard
output. What the module remembers lives as long as the process. What strfry has stored is out of reach: --facts says what there is.

In strfry.conf:  relay.writePolicy.plugin = "/usr/local/bin/talon plugin exec /etc/strfry/words.wasm"`,
		Args: cobra.ExactArgs(1),
	}
	bench.flags(cmd)
	cmd.Flags().StringVar(&pass, "pass", pass, "what an event becomes of which the module has no `opinion`: accept or reject")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if pass != "accept" && pass != "reject" {
			return fmt.Errorf("pass %.40q: want accept or reject", pass)
		}
		return quoted(bench.strfryAdapter(args[0], cmd.InOrStdin(), pass == "accept"))
	}
	return cmd
}

// strfryAdapter lets a module answer as a write-policy plugin of strfry does.
func (b *workbench) strfryAdapter(path string, in io.Reader, pass bool) error {
	r, err := b.runner(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.CheckSift(b.facts != ""); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(b.cmd.Context())
	defer stop()
	swept := make(chan error, 1)
	go func() { swept <- r.Run(ctx) }()
	// A signal does not end the wait for a line.
	sifted := make(chan error, 1)
	go func() { sifted <- r.RunStrfry(ctx, in, b.cmd.OutOrStdout(), pass, moduleLog(b.cmd.ErrOrStderr())) }()
	select {
	case err = <-sifted:
	case <-ctx.Done():
	}
	stop()
	return errors.Join(err, <-swept)
}
