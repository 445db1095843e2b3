package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/hunt"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
	"talon/cmd/internal/lab/scenario"
)

func labHuntCommand() *cobra.Command {
	var o labOptions
	var during time.Duration
	var seeds, jobs, shrink int
	cmd := &cobra.Command{
		Use:   "hunt DIR",
		Short: "Look for what breaks strategies, in networks that are drawn",
		Long: `Draw a network, its faults and a seed, run every strategy with every throttle in it, and go on with the next one, until ^C or for the time of --for.

The folder keeps what was found: findings.jsonl, and the scenarios, which talon lab run takes. A line is printed for each finding, with the command that shows it again.
A hunt that goes on in the same folder first tries again what it has, and says what is gone. The exit code is 1 if something was found or is still there.`,
		Example: `  talon lab hunt found --strategy mirror,layered-v5 --throttle polite --for 2h`,
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.strategies, "strategy", nil, "`modules` to try: .wasm files, their folders, or names of bundled ones")
	f.StringSliceVar(&o.throttles, "throttle", nil, "`modules` that say how hard relays are pressed, likewise; none: the host's own backoff")
	f.StringArrayVar(&o.config, "config", nil, "configure a module: `MODULE:KEY=VALUE`")
	f.Uint64Var(&o.first, "seed", 0, "the first `seed`; 0: the one after the last that was tried")
	f.DurationVar(&during, "for", 0, "hunt for this `time`; 0: until ^C")
	f.IntVar(&seeds, "seeds", 0, "how `many` networks, from the first seed; 0: there is no limit")
	f.IntVar(&jobs, "jobs", runtime.GOMAXPROCS(0), "how `many` runs at once")
	f.IntVar(&shrink, "shrink", 100, "how `many` runs are spent on making a finding small; 0: none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if jobs < 1 || jobs > 1024 || seeds < 0 || shrink < 0 || during < 0 {
			return errors.New("want jobs from 1 to 1024, and seeds, shrink and for from 0")
		}
		c, err := hunt.Open(args[0])
		if err != nil {
			return err
		}
		defer o.close()
		h := &labHunt{cmd: cmd, options: &o, corpus: c, plan: runner.Plan{Seeds: 1, Jobs: jobs, Shrink: shrink}, counts: map[string]int{}}
		if h.variants, err = o.pairs(cmd.Context(), jobs, cmd.ErrOrStderr()); err != nil {
			return err
		}
		if o.first == 0 {
			o.first = c.Next
		}
		return quoted(h.run(o.first, seeds, during))
	}
	return cmd
}

// labHunt is a hunt that goes on.
type labHunt struct {
	cmd      *cobra.Command
	options  *labOptions
	corpus   *hunt.Corpus
	plan     runner.Plan
	variants []runner.Variant // without a scenario
	counts   map[string]int   // findings by modules and invariant
	runs     int
}

// run tries what the corpus has, then new scenarios.
func (h *labHunt) run(first uint64, seeds int, during time.Duration) error {
	ctx := h.cmd.Context()
	if during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, during)
		defer cancel()
	}
	setLabMemory()
	again, err := h.again(ctx)
	if err != nil {
		return err
	}
	seed := first
	for ; ctx.Err() == nil && (seeds == 0 || seed < first+uint64(seeds)); seed++ {
		s := hunt.Draw(seed)
		err := h.try(ctx, s, seed, h.variants, func(r *result.Run) error {
			found := hunt.FoundBy(r)
			if found == nil {
				return nil
			}
			found.Modules = h.options.modulesOf(r)
			if err := h.corpus.Add(found, s); err != nil {
				return err
			}
			h.counts[found.Strategy+": "+found.Invariant]++
			fmt.Fprintln(h.cmd.OutOrStdout(), plain(found.String()))
			return nil
		})
		if err != nil {
			return err
		}
		if ctx.Err() == nil {
			if err := h.corpus.Tried(seed); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(h.cmd.OutOrStdout(), "%s in %s\n", counted(h.runs, "run"), counted(int(seed-first), "network"))
	found := again
	for _, name := range slices.Sorted(maps.Keys(h.counts)) {
		fmt.Fprintf(h.cmd.OutOrStdout(), "%6d  %s\n", h.counts[name], plain(name))
		found += h.counts[name]
	}
	if found > 0 {
		return errors.New(counted(found, "finding") + ": see above")
	}
	return nil
}

// modulesOf returns the options that give another run the modules of a run, with their settings.
func (o *labOptions) modulesOf(r *result.Run) (options []string) {
	add := func(option string, paths []string, m *result.Module) {
		if m == nil {
			return
		}
		path := m.Name
		for _, p := range paths {
			if moduleName(p) == m.Name {
				path = p
			}
		}
		options = append(options, option, path)
		for _, c := range m.Config {
			options = append(options, "--config", fmt.Sprintf("%s:%s=%s", m.Name, c.Key, c.Value))
		}
	}
	add("--strategy", o.strategies, r.Strategy)
	add("--throttle", o.throttles, r.Throttle)
	return options
}

// again tries what the corpus has, and returns how many findings are still there.
func (h *labHunt) again(ctx context.Context) (still int, err error) {
	for _, f := range slices.Clone(h.corpus.Found) {
		variants := slices.DeleteFunc(slices.Clone(h.variants), func(v runner.Variant) bool {
			throttle := ""
			if v.Throttle != nil {
				throttle = v.Throttle.About().Name
			}
			return v.Strategy.About().Name != f.Strategy || throttle != f.Throttle
		})
		if len(variants) == 0 || ctx.Err() != nil {
			continue
		}
		s, err := h.corpus.Scenario(&f)
		if err != nil {
			return still, err
		}
		err = h.try(ctx, s, f.Seed, variants[:1], func(r *result.Run) error {
			state := "gone"
			if found := hunt.FoundBy(r); found != nil && found.Invariant == f.Invariant {
				state = "still there"
				still++
			} else if found != nil {
				state = "now " + found.Invariant
				still++
			}
			fmt.Fprintf(h.cmd.OutOrStdout(), "%s: %s\n", state, plain(f.String()))
			return nil
		})
		if err != nil {
			return still, err
		}
	}
	return still, nil
}

// try runs variants in a scenario. A run that was interrupted counts for nothing.
func (h *labHunt) try(ctx context.Context, s *scenario.Scenario, seed uint64, variants []runner.Variant, found func(*result.Run) error) error {
	p := h.plan
	p.First = seed
	for _, v := range variants {
		v.Scenario = s
		p.Variants = append(p.Variants, v)
	}
	p.Write = func(r *result.Run) error {
		if ctx.Err() != nil || r.End.How == result.CutShort {
			return nil
		}
		h.runs++
		return found(r)
	}
	return runner.Run(ctx, &p)
}
