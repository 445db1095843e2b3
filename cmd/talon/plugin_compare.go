package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginDiffCommand() *cobra.Command {
	var bench workbench
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B FILE.jsonl",
		Short: "Show which events two modules would decide differently",
		Long: `Show which lines of a file two modules answer differently, by verdict. Each has the side-car beside it, and remembers its own.

` + questionsHelp,
		Example: `  talon plugin diff old.wasm words.wasm events.jsonl`,
		Args:    cobra.ExactArgs(3),
	}
	cmd.Flags().StringVar(&bench.facts, "facts", "", "what the relay has stored, one event a line: a `file`")
	cmd.Flags().StringVar(&bench.sidecar, "sidecar", "", "the settings and sets of both (default NAME.toml beside each NAME.wasm): a `file`")
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

// benchLines bounds the events of a measurement, which are kept in memory.
const benchLines = 100_000

func pluginBenchCommand() *cobra.Command {
	var bench workbench
	var against string
	var asJSON bool
	var during time.Duration
	cmd := &cobra.Command{
		Use:   "bench [MODULE] FILE.jsonl",
		Short: "Measure the time, fuel and memory of a module",
		Long: `Measure what a decision costs, one at a time, with the events of a file in turn; how long a start takes; and the memory of
one instance. With --against, the same events go to a plugin of strfry, a process that reads and writes lines of JSON.

` + questionsHelp,
		Example: `  talon plugin bench words.wasm events.jsonl --against exec:./words.py`,
		Args:    cobra.RangeArgs(1, 2),
	}
	bench.flags(cmd)
	bench.clockFlag(cmd)
	cmd.Flags().StringVar(&against, "against", "", "compare with a plugin of strfry: exec:`PATH`")
	cmd.Flags().DurationVar(&during, "time", 2*time.Second, "how `long` to measure")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		module, file := moduleAndFile(args)
		return quoted(bench.measure(module, file, against, during, asJSON))
	}
	return cmd
}

func (b *workbench) measure(path, file, against string, during time.Duration, asJSON bool) error {
	command := ""
	if against != "" {
		var err error
		if command, err = author.Command(against); err != nil {
			return err
		}
	}
	if during <= 0 || during > time.Hour {
		return fmt.Errorf("time %v: want more than nothing, at most an hour", during)
	}
	if err := b.meet(file); err != nil {
		return err
	}
	source, o, err := b.find(path)
	if err != nil {
		return err
	}
	var questions []*author.Case
	err = b.questions(file, func(q *author.Case) error {
		if len(questions) < benchLines {
			questions = append(questions, q)
		}
		return nil
	})
	if err != nil {
		return err
	}
	result := benchResult{Events: len(questions)}
	if result.Module, err = source.Bench(b.cmd.Context(), questions, during, o); err != nil {
		return err
	}
	if command != "" {
		p, err := author.StartProcess(b.cmd.Context(), command, b.cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer p.Close()
		other, err := p.Bench(b.cmd.Context(), questions, during)
		if err != nil {
			return err
		}
		result.Against = &other
		// The medians: what else the machine does is in the means.
		result.Times = float64(other.P50) / float64(max(result.Module.P50, 1))
		result.TimesCPU = float64(other.CPU) / float64(max(result.Module.CPU, 1))
	}
	if asJSON {
		return printJSON(b.cmd.OutOrStdout(), result)
	}
	return result.write(b.cmd.OutOrStdout(), command)
}

// benchResult is what talon plugin bench --json writes; times are nanoseconds.
type benchResult struct {
	Events   int              `json:"events"`
	Module   author.Measured  `json:"module"`
	Against  *author.Measured `json:"against,omitempty"`
	Times    float64          `json:"times_sooner,omitempty"`  // by p50
	TimesCPU float64          `json:"times_cheaper,omitempty"` // by CPU
}

func timesText(m *author.Measured) string {
	return fmt.Sprintf("mean %d ns, p50 %d, p99 %d; CPU %d ns", m.Mean, m.P50, m.P99, m.CPU)
}

func (r *benchResult) write(w io.Writer, command string) error {
	m := &r.Module
	t := newTable(w)
	t.row("decision", timesText(m))
	t.row("fuel", fmt.Sprintf("p50 %d, p99 %d, most %d; budget %d, and more for large events", m.Fuel50, m.Fuel99, m.MaxFuel, m.FuelBudget))
	t.row("start", fmt.Sprintf("%v; %v where compiled code is kept", m.Cold.Round(time.Millisecond), m.Warm.Round(time.Millisecond)))
	t.row("memory", fmt.Sprintf("%s an instance, of %s", bytesText(m.Memory), bytesText(m.MemoryLimit)))
	t.row("module", bytesText(int64(m.Size)))
	t.row("measured", fmt.Sprintf("%d decisions about %s", m.Decisions, counted(r.Events, "event")))
	if p := r.Against; p != nil {
		t.row("against", timesText(p)+": "+command)
		t.row("so", fmt.Sprintf("a decision of the module takes %.1f times less CPU, and is there %.1f times sooner (p50)", r.TimesCPU, r.Times))
	}
	return t.w.Flush()
}
