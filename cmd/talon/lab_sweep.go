package main

import (
	"errors"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
)

func labSweepCommand() *cobra.Command {
	var o labOptions
	var seeds, jobs, shrink int
	var out string
	cmd := &cobra.Command{
		Use:   "sweep SCENARIO --set KEY=V1,V2",
		Short: "Try modules with several values of a key of the scenario",
		Long: `Run strategies and throttles with each value of a key of the scenario, with the same seeds, and compare the values for each of them. The first value is the one that
the others are compared with. talon lab run with the same options makes the same runs, and compares the strategies with each other for each value.

The comparison is paired by seed. Everything random has a stream of its own, so that worlds of one seed differ in what the key changes. They may have other events:
completeness is compared by the statistics of the other measures, and no event counts as lost.`,
		Example: `  talon lab sweep retention --strategy mirror,layered-v5 --throttle polite --set 'relays.*.keeps=1000d,180d,90d,30d' --out keeps
  talon lab report keeps/runs.jsonl --sweep --markdown`,
		Args: cobra.ExactArgs(1),
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&seeds, "seeds", 20, "how `many` seeds, from the first one")
	f.IntVar(&jobs, "jobs", runtime.GOMAXPROCS(0), "how `many` runs at once")
	f.IntVar(&shrink, "shrink", 200, "how `many` runs are spent on making a broken invariant small; 0: none")
	f.StringVar(&out, "out", "", "`folder` for the results; without one there is only the table")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if seeds < 1 || seeds > 1_000_000 || jobs < 1 || jobs > 1024 || shrink < 0 {
			return errors.New("want seeds from 1 to 1000000, jobs from 1 to 1024, and shrink from 0")
		}
		variants, err := o.variants(cmd.Context(), args[0], jobs, cmd.ErrOrStderr())
		defer o.close()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(variants, func(v runner.Variant) bool { return !slices.Equal(v.Set, variants[0].Set) }) {
			return errors.New("want several values of a key: --set KEY=V1,V2")
		}
		p := &labPlan{Plan: runner.Plan{
			Variants: variants, First: o.first, Seeds: seeds, Jobs: jobs, Level: result.Level(o.level), Relays: true, Shrink: shrink,
		}, command: append([]string{"talon"}, os.Args[1:]...), sweep: true}
		if out != "" {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := o.keep(out, args[0], p); err != nil {
				return quoted(err)
			}
		}
		return quoted(runLab(cmd, p, out))
	}
	return cmd
}
