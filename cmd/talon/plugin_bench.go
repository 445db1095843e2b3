package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

// benchLines bounds the events of a measurement, which are kept in memory.
const benchLines = 100_000

func pluginBenchCommand() *cobra.Command {
	var bench runOptions
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

func (b *runOptions) measure(path, file, against string, during time.Duration, asJSON bool) error {
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

func timesText(m *author.Measured) string {
	return fmt.Sprintf("mean %d ns, p50 %d, p99 %d; CPU %d ns", m.Mean, m.P50, m.P99, m.CPU)
}
