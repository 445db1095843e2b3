package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/report"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
	"talon/cmd/internal/lab/scenario"
	"talon/internal/durable"
	"talon/internal/tomlschema"
	"talon/sdk/abi/manifest"
)

// labOptions is what the commands that run something share.
type labOptions struct {
	strategies, throttles []string
	set, config           []string
	level                 string
	first                 uint64
	modules               []io.Closer
}

func (o *labOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.strategies, "strategy", nil, "`modules` to try: .wasm files, their folders, or names of bundled ones")
	f.StringSliceVar(&o.throttles, "throttle", nil, "`modules` that say how hard relays are pressed, likewise; none: the host's own backoff")
	f.StringArrayVar(&o.set, "set", nil, "change the scenario: `KEY=VALUE`, or KEY=V1,V2 to try each; relays.*.KEY is that of every class")
	f.StringArrayVar(&o.config, "config", nil, "configure a module: `MODULE:KEY=VALUE`, or several values to try each")
	f.StringVar(&o.level, "level", "", "how relays are played: `wire` or model; as the scenario says if it is not given")
	f.Uint64Var(&o.first, "seed", 1, "the first `seed`")
}

func labRunCommand() *cobra.Command {
	var o labOptions
	var seeds, jobs, shrink, finding int
	var out, trace string
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Try strategies and throttles in a simulated network",
		Long: `Run every strategy with every throttle in a scenario, once for each seed. All variants of a seed have the same weather: what is published when, which relays fail,
how long lines take. The modules are the files that production runs, and so are the machines that carry out what they decide.

With --out, a folder gets runs.jsonl, the tables as CSV, and report.html. It also gets the scenario, the modules, the command and a CITATION.cff, so that talon lab
rerun makes the same results from it. A folder that has the results of another run is refused; the same run, after ^C for example, starts again there. An invariant that a run breaks ends it: the run is named with its seed, and with the shortest
part of its events and faults that was found to break it too. The exit code is 1 then. Interrupted, it writes what is done.
With --finding N, the Nth of these parts is replayed and printed as a story, which talon plugin test plays.

SCENARIO is a file (docs/reference-lab-scenarios.md has the keys), or one of those that are built in:
`,
		Example: `  talon lab run small --strategy layered-v5,./mine.wasm --throttle polite --seeds 200 --out results
  talon lab run small --strategy layered-v5 --set 'relays.*.rate=10,50,250'
  talon lab run small --strategy layered-v5 --config layered-v5:batch_seconds=1,5,20`,
		Args: cobra.ExactArgs(1),
	}
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long += "\n\n" + scenarioList() // to read them takes longer than a short command
		help(cmd, args)
	})
	o.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&seeds, "seeds", 20, "how `many` seeds, from the first one")
	f.IntVar(&jobs, "jobs", runtime.GOMAXPROCS(0), "how `many` runs at once")
	f.IntVar(&shrink, "shrink", 200, "how `many` runs are spent on making a broken invariant small; 0: none")
	f.StringVar(&out, "out", "", "`folder` for the results; without one there is only the table")
	f.IntVar(&finding, "finding", 0, "print this `finding` as a story for testdata, instead of the table: 1 is the first")
	f.StringVar(&trace, "trace", "", "keep the messages between the first Talon and this `relay`, such as strfry-0")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if seeds < 1 || seeds > 1_000_000 || jobs < 1 || jobs > 1024 || shrink < 0 || finding < 0 {
			return errors.New("want seeds from 1 to 1000000, jobs from 1 to 1024, and shrink and finding from 0")
		}
		variants, err := o.variants(cmd.Context(), args[0], jobs, cmd.ErrOrStderr())
		defer o.close()
		if err != nil {
			return err
		}
		p := &labPlan{Plan: runner.Plan{
			Variants: variants, First: o.first, Seeds: seeds, Jobs: jobs, Level: result.Level(o.level), Trace: trace, Relays: true, Shrink: shrink,
		}, command: append([]string{"talon"}, os.Args[1:]...)}
		if finding > 0 {
			return quoted(labStory(cmd, &p.Plan, finding))
		}
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

func scenarioList() string {
	var b strings.Builder
	for _, name := range scenario.Names() {
		s, _, err := scenario.Builtin(name)
		if err != nil {
			panic(err) // they are embedded
		}
		fmt.Fprintf(&b, "  %-12s %s\n", name, s.Description)
	}
	return b.String()
}

// Runs make much that is short-lived: garbage may be several times what is in use, as long
// as memory stays below labMemory, where that is possible.
const (
	labGarbage = 400 // percent
	labMemory  = 900 << 20
)

func setLabMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(labMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(labGarbage)
	}
}

// labPlan is what a command runs.
type labPlan struct {
	runner.Plan
	command []string
	sweep   bool // the table compares the values of a key
}

// makeRuns makes the runs. A folder, if there is one, gets runs.jsonl. It returns what a report
// takes, and what broke.
func (p *labPlan) makeRuns(cmd *cobra.Command, out string) (r *report.Report, broken []string, err error) {
	setLabMemory()
	w := result.NewWriter(io.Discard)
	if out != "" {
		file, err := os.Create(filepath.Join(out, runsFile))
		if err != nil {
			return nil, nil, err
		}
		defer file.Close()
		w = result.NewWriter(file) // a run at a time: nothing is left to be written
	}
	r = new(report.Report)
	p.Write = func(run *result.Run) error {
		for _, f := range run.Findings {
			if f.Prefix != nil {
				broken = append(broken, fmt.Sprintf("%s, seed %d, after %v: %s: %s (%s and %s show it)", run.Variant(), run.Seed, f.At.Duration(), f.Invariant, f.Text,
					counted(len(f.Prefix.Events), "event"), counted(len(f.Prefix.Faults), "fault")))
			} else if len(broken) < 20 {
				broken = append(broken, fmt.Sprintf("%s, seed %d: %s: %s", run.Variant(), run.Seed, f.Invariant, f.Text))
			}
		}
		r.Add(run)
		return w.Write(run)
	}
	bar := newProgress(cmd.ErrOrStderr())
	p.Progress = func(done, all int, left time.Duration) {
		bar.show(func() string {
			const width = 30
			full := width * done / max(1, all)
			return fmt.Sprintf("[%s%s] %d of %d runs, %v left", strings.Repeat("=", full), strings.Repeat(" ", width-full), done, all, left.Round(time.Second))
		})
	}
	err = runner.Run(cmd.Context(), &p.Plan)
	bar.end()
	return r, broken, err
}

// runLab makes the runs, and shows what comes of them.
func runLab(cmd *cobra.Command, p *labPlan, out string) error {
	r, broken, err := p.makeRuns(cmd, out)
	if err != nil {
		return err
	}
	if out != "" {
		if err := errors.Join(writeTables(out, []string{filepath.Join(out, runsFile)}), durable.WriteFrom(filepath.Join(out, "report.html"), 0o644, r.Page)); err != nil {
			return err
		}
	}
	stdout := cmd.OutOrStdout()
	if err := report.Text(stdout, outcomes(r, p.sweep), columns(stdout), plain, redOn(stdout)); err != nil {
		return err
	}
	for _, text := range broken {
		fmt.Fprintln(stdout, plain(text))
	}
	if len(broken) > 0 {
		return errors.New(counted(len(broken), "finding") + ": see above")
	}
	if cmd.Context().Err() != nil {
		return errors.New("interrupted: these are the runs until then")
	}
	return nil
}

// variants reads the scenario and the modules, and makes the variants to compare.
func (o *labOptions) variants(ctx context.Context, path string, jobs int, w io.Writer) (list []runner.Variant, err error) {
	if o.level != "" && o.level != string(result.Wire) && o.level != string(result.Model) {
		return nil, fmt.Errorf("level %q: want wire or model", o.level)
	}
	s, _, err := scenario.Open(path)
	if err != nil {
		return nil, errors.New(plain(err.Error()))
	}
	sets, err := sweeps(o.set)
	if err != nil {
		return nil, err
	}
	pairs, err := o.pairs(ctx, jobs, w)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		changed, err := runner.Change(s, set)
		if err != nil {
			return nil, errors.New(plain(err.Error()))
		}
		for _, v := range pairs {
			v.Scenario, v.Set = changed, set
			list = append(list, v)
		}
	}
	return list, nil
}

// pairs opens the modules, and returns each strategy with each throttle, without a scenario.
func (o *labOptions) pairs(ctx context.Context, jobs int, w io.Writer) (list []runner.Variant, err error) {
	if len(o.strategies) == 0 {
		return nil, errors.New("want a strategy: --strategy layered-v5, or a file")
	}
	strategies, err := o.open(ctx, o.strategies, manifest.WorldStrategy, jobs, w)
	if err != nil {
		return nil, err
	}
	throttles, err := o.open(ctx, o.throttles, manifest.WorldThrottle, jobs, w)
	if err != nil {
		return nil, err
	}
	if len(throttles) == 0 {
		throttles = []engine.Module{nil}
	}
	for _, a := range strategies {
		for _, b := range throttles {
			list = append(list, runner.Variant{Strategy: a, Throttle: b})
		}
	}
	return list, nil
}

func sweeps(texts []string) ([][]result.Setting, error) {
	var list []runner.Sweep
	for _, text := range texts {
		s, err := runner.ParseSweep(text)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return runner.Combinations(list)
}

// moduleName is the name of a module that an option gives by its file, its folder or its name.
func moduleName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".wasm") }

// open makes modules ready, each once for every combination of its settings.
func (o *labOptions) open(ctx context.Context, paths []string, world string, jobs int, w io.Writer) (list []engine.Module, err error) {
	for _, path := range paths {
		file := path
		name := moduleName(file)
		var own []string
		for _, text := range o.config {
			of, rest, ok := strings.Cut(text, ":")
			if !ok || !slices.ContainsFunc(slices.Concat(o.strategies, o.throttles), func(p string) bool { return moduleName(p) == of }) {
				return nil, fmt.Errorf("config %q: want MODULE:KEY=VALUE, with the name of a module that is tried", text)
			}
			if of == name {
				own = append(own, rest)
			}
		}
		all, err := sweeps(own)
		if err != nil {
			return nil, err
		}
		for _, set := range all {
			config := map[string]any{}
			for _, c := range set {
				config[c.Key] = tomlschema.Value(c.Value)
			}
			m, err := module.Open(ctx, file, module.Options{World: world, Config: config, Instances: jobs, Log: w})
			if err != nil {
				return nil, err
			}
			o.modules = append(o.modules, m)
			list = append(list, m)
		}
	}
	return list, nil
}

func (o *labOptions) close() {
	for _, m := range o.modules {
		_ = m.Close()
	}
}

func labCommand() *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "lab",
		Short: "Try strategies and throttles in a simulated network",
		Long: `Try strategies and throttles, the files that production runs, in a network in virtual time: seeded, with faults, repeatable to the byte.

What runs leave is a file of JSON lines. Comparisons are paired by seed: variants in the same world with the same seed had the same weather.`,
	})
	group(cmd, "run", "Try modules:", labRunCommand(), labSweepCommand(), labRerunCommand(), labHuntCommand(), labWatchCommand(), labRecordCommand())
	group(cmd, "results", "Look at results:", labReportCommand(), labDiffCommand())
	return cmd
}
