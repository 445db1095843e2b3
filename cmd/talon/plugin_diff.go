package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginDiffCommand() *cobra.Command {
	var bench runOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B FILE.jsonl",
		Short: "Show which events two modules would decide differently",
		Long: `Show which lines of a file two modules answer differently, by verdict. Each has the side-car beside it, and remembers its own.

` + questionsHelp,
		Example: `  talon plugin diff old.wasm words.wasm events.jsonl`,
		Args:    cobra.ExactArgs(3),
	}
	cmd.Flags().StringVar(&bench.facts, "facts", "", "stored events of the relay, one a line: a `file`")
	cmd.Flags().StringVar(&bench.sidecar, "sidecar", "", "the settings and sets of both: a `file` (default NAME.toml next to each NAME.wasm)")
	bench.cmd = cmd
	bench.clockFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bench.meet(args[2]); err != nil {
			return quoted(err)
		}
		a, err := bench.runner(args[0])
		if err != nil {
			return quoted(err)
		}
		defer a.Close()
		b, err := bench.runner(args[1])
		if err != nil {
			return quoted(err)
		}
		defer b.Close()
		var c author.Comparison
		err = bench.questions(args[2], func(q *author.Case) error {
			c.Compare(cmd.Context(), a, b, q)
			return nil
		})
		if err != nil {
			return quoted(err)
		}
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), comparedAs(&c))
		} else {
			err = writeComparison(cmd.OutOrStdout(), &c, args)
		}
		if err == nil && c.Failed > 0 {
			err = quoted(fmt.Errorf("no verdict about %d of %d, first %s", c.Failed, c.Asked, c.FirstFailure))
		}
		return err
	}
	return cmd
}

func writeComparison(w io.Writer, c *author.Comparison, files []string) error {
	if c.Differ == 0 {
		_, err := fmt.Fprintf(w, "the same answers to %s\n", counted(c.Asked, "line"))
		return err
	}
	t := newTable(w)
	t.row("LINES", files[0], files[1], "SUCH AS")
	for _, d := range c.Differences() {
		t.row(d.Count, d.A, d.B, "")
		for i := range d.First {
			u := &d.First[i]
			t.row("", "  "+u.A.Said(), "  "+u.B.Said(), u.Where)
		}
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %s answered differently\n", c.Differ, counted(c.Asked, "line"))
	return err
}

// compared is what talon plugin diff --json writes.
type compared struct {
	Asked       int              `json:"asked"`
	Differ      int              `json:"differ"`
	Differences []comparedByKind `json:"differences"`
}

type comparedByKind struct {
	A     string   `json:"a"`
	B     string   `json:"b"`
	Count int      `json:"count"`
	First [][2]ran `json:"first"`
}

func comparedAs(c *author.Comparison) compared {
	out := compared{Asked: c.Asked, Differ: c.Differ, Differences: []comparedByKind{}}
	for _, d := range c.Differences() {
		kind := comparedByKind{A: d.A, B: d.B, Count: d.Count}
		for i := range d.First {
			u := &d.First[i]
			q := author.Case{Where: u.Where}
			one, other := ranAs(&q, &u.A), ranAs(&q, &u.B)
			one.Event, other.Event = u.Event, u.Event
			kind.First = append(kind.First, [2]ran{one, other})
		}
		out.Differences = append(out.Differences, kind)
	}
	return out
}
