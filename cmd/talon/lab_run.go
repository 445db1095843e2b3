package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"talon/cmd/internal/lab/world"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/relaysync"
	"talon/host/wire"
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
	var seeds, jobs, shrink int
	var out, trace string
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Try strategies and throttles in a simulated network",
		Long: `Run every strategy with every throttle in a scenario, once for each seed. All variants of a seed have the same weather: what is published when, which relays fail,
how long lines take. The modules are the files that production runs, and so are the machines that carry out what they decide.

With --out, a folder gets runs.jsonl, the tables as CSV, and report.html. An invariant that a run breaks ends it: the run is named with its seed, and with the shortest
part of its events and faults that was found to break it too. The exit code is 1 then. Interrupted, it writes what is done.

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
	f.StringVar(&trace, "trace", "", "keep what crosses the line of the first Talon to this `relay`, such as strfry-0")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if seeds < 1 || seeds > 1_000_000 || jobs < 1 || jobs > 1024 || shrink < 0 {
			return errors.New("want seeds from 1 to 1000000, jobs from 1 to 1024, and shrink from 0")
		}
		variants, err := o.variants(cmd.Context(), args[0], jobs, cmd.ErrOrStderr())
		defer o.close()
		if err != nil {
			return err
		}
		p := &runner.Plan{
			Variants: variants, First: o.first, Seeds: seeds, Jobs: jobs, Level: result.Level(o.level), Trace: trace, Relays: true, Shrink: shrink,
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

// runLab makes the runs, and shows what comes of them.
func runLab(cmd *cobra.Command, p *runner.Plan, out string) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(labMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(labGarbage)
	}
	w := result.NewWriter(io.Discard)
	runs := filepath.Join(out, "runs.jsonl")
	if out != "" {
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		file, err := os.Create(runs)
		if err != nil {
			return err
		}
		defer file.Close()
		w = result.NewWriter(file) // a run at a time: nothing is left to be written
	}
	r := new(report.Report)
	var broken []string
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
	err := runner.Run(cmd.Context(), p)
	bar.end()
	if err != nil {
		return err
	}
	if out != "" {
		if err := errors.Join(writeTables(out, []string{runs}), writeReport(filepath.Join(out, "report.html"), r)); err != nil {
			return err
		}
	}
	stdout := cmd.OutOrStdout()
	if err := report.Text(stdout, &r.Outcomes, columns(stdout), plain); err != nil {
		return err
	}
	for _, text := range broken {
		fmt.Fprintln(stdout, plain(text))
	}
	if len(broken) > 0 {
		return errors.New(counted(len(broken), "finding") + ": see above")
	}
	if cmd.Context().Err() != nil {
		return errors.New("interrupted: this is what was done until then")
	}
	return nil
}

// variants reads the scenario and the modules, and what is to be varied.
func (o *labOptions) variants(ctx context.Context, path string, jobs int, w io.Writer) (list []runner.Variant, err error) {
	if o.level != "" && o.level != string(result.Wire) && o.level != string(result.Model) {
		return nil, fmt.Errorf("level %q: want wire or model", o.level)
	}
	if len(o.strategies) == 0 {
		return nil, errors.New("want a strategy: --strategy layered-v5, or a file")
	}
	s, _, err := scenario.Open(path)
	if err != nil {
		return nil, errors.New(plain(err.Error()))
	}
	sets, err := sweeps(o.set)
	if err != nil {
		return nil, err
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
	for _, set := range sets {
		changed, err := runner.Change(s, set)
		if err != nil {
			return nil, errors.New(plain(err.Error()))
		}
		for _, a := range strategies {
			for _, b := range throttles {
				list = append(list, runner.Variant{Scenario: changed, Set: set, Strategy: a, Throttle: b})
			}
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

// open makes modules ready, each once for every combination of its settings.
func (o *labOptions) open(ctx context.Context, paths []string, world string, jobs int, w io.Writer) (list []engine.Module, err error) {
	for _, path := range paths {
		file := moduleFile(path)
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		var own []string
		for _, text := range o.config {
			of, rest, ok := strings.Cut(text, ":")
			if !ok || !slices.ContainsFunc(slices.Concat(o.strategies, o.throttles), func(p string) bool { return strings.TrimSuffix(filepath.Base(p), ".wasm") == of }) {
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

// moduleFile returns the file of a module that came with the program, or the path as it
// is.
func moduleFile(path string) string {
	if _, err := os.Stat(path); err == nil || strings.ContainsAny(path, `/\`) {
		return path
	}
	program, err := os.Executable()
	if err != nil {
		return path
	}
	for _, folder := range []string{"plugins", "more"} {
		file := filepath.Join(filepath.Dir(program), folder, path+".wasm")
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return path
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
	group(cmd, "run", "Try modules:", labRunCommand(), labWatchCommand(), labRecordCommand())
	group(cmd, "results", "Look at results:", labReportCommand(), labDiffCommand())
	return cmd
}

func labWatchCommand() *cobra.Command {
	var o labOptions
	var speed float64
	cmd := &cobra.Command{
		Use:   "watch SCENARIO",
		Short: "Watch one run, slowed",
		Long: `Run one seed of a scenario and show what happens: faults, what is stored, and how much of what is wanted is here. Without --speed it takes about a minute.

On a terminal one line is kept up to date; elsewhere, and with --speed 0, there is a line for each step of the time.`,
		Example: `  talon lab watch outages --strategy layered-v5 --throttle polite --speed 3600`,
		Args:    cobra.ExactArgs(1),
	}
	o.flags(cmd)
	cmd.Flags().Float64Var(&speed, "speed", -1, "virtual `seconds` in a second; 0: as fast as it goes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		variants, err := o.variants(cmd.Context(), args[0], 1, cmd.ErrOrStderr())
		defer o.close()
		if err != nil {
			return err
		}
		if len(variants) != 1 {
			return fmt.Errorf("these are %d variants: want one strategy, one throttle at most, and one value of each key", len(variants))
		}
		v := variants[0]
		level := result.Level(o.level)
		if level == "" {
			level = result.Level(v.Scenario.Level)
		}
		if speed < 0 {
			speed = time.Duration(v.Scenario.Duration).Seconds() / 60
		}
		w := &labWatch{ctx: cmd.Context(), w: cmd.OutOrStdout(), speed: speed, begun: time.Now(), live: terminal(cmd.OutOrStdout()) && speed > 0}
		r, err := engine.Run(cmd.Context(), engine.Config{World: world.Draw(v.Scenario, o.first), Level: level, Strategy: v.Strategy, Throttle: v.Throttle, Watch: w.show})
		if err != nil {
			return err
		}
		return w.end(r)
	}
	return cmd
}

// labWatch shows a run while it goes on.
type labWatch struct {
	ctx    context.Context
	w      io.Writer
	speed  float64
	begun  time.Time
	live   bool // one line is kept up to date
	shown  time.Time
	stored int // since the last line
}

// show shows how far a run is, and waits until that is so.
func (w *labWatch) show(p engine.Progress) {
	if w.speed > 0 {
		due := w.begun.Add(time.Duration(float64(p.Now) / w.speed))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-w.ctx.Done():
			}
		}
	}
	line := fmt.Sprintf("%12v  %6.2f %% here, %d wanted  %s", p.Now.Round(time.Second), 100*share(p.Here, p.Wanted), p.Wanted, counted(p.Connections, "connection"))
	switch {
	case p.Stored:
		w.stored++
		if w.live && time.Since(w.shown) > 50*time.Millisecond {
			w.shown = time.Now()
			fmt.Fprintf(w.w, "\r\x1b[K%s", line)
		}
	case p.Line != "":
		w.print(fmt.Sprintf("%12v  %s", p.Now.Round(time.Second), p.Line))
	case w.live:
		fmt.Fprintf(w.w, "\r\x1b[K%s", line)
	default:
		w.print(fmt.Sprintf("%s, %d new", line, w.stored))
		w.stored = 0
	}
}

func (w *labWatch) print(line string) {
	if w.live {
		fmt.Fprint(w.w, "\r\x1b[K")
	}
	fmt.Fprintln(w.w, plain(line))
}

func (w *labWatch) end(r *result.Run) error {
	w.print(fmt.Sprintf("%s after %v", r.End.How, r.End.At.Duration()))
	for _, f := range r.Findings {
		w.print(f.Invariant + ": " + f.Text)
	}
	if r.End.How != result.Finished {
		return errors.New(plain(r.End.Reason))
	}
	return nil
}

// share is a part of a whole; all of nothing is 1.
func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

func labRecordCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write a scenario like the network of a running server",
		Long: `Write a scenario like the network of a running server to standard output: how many relays it follows, in classes by what they can do and the limits that they have
shown; how many repositories, how unequal, with how much in them, and what came in the last 30 days. It asks the server over its admin socket, and reads its store.

There are counts and sizes in it, and no key, name or address of anybody. What the server does not know, latencies and outages, is as the defaults have it.`,
		Example: `  talon lab record --data ./data > mine.toml
  talon lab run mine.toml --strategy layered-v2,layered-v5 --throttle polite`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Operating)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		text, err := recordNetwork(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}

// recordNetwork asks a server for its relays, and its store for the rest.
func recordNetwork(ctx context.Context, cfg *config.Config) (text []byte, err error) {
	server, err := runningServer(cfg)
	if err != nil {
		return nil, err
	}
	status, err := server.Sync(ctx, relaysync.Query{Limit: 1 << 20})
	if errors.Is(err, admin.ErrNoServer) {
		return nil, noServer(err)
	}
	if err != nil {
		return nil, err
	}
	r := scenario.NewRecording(time.Now().Unix())
	for _, relay := range status.Relays {
		if relay.State == relaysync.StateUnwanted {
			continue
		}
		l := relay.Limits
		r.Relay(scenario.Observed{
			Bootstrap: relay.Bootstrap, Dead: relay.Health == "dead" || relay.Health == "barred" || relay.Failures > 0 && relay.Connected.IsZero(),
			Negentropy: l.Negentropy == "yes", Auth: l.Auth,
			Subscriptions: l.Subscriptions, Filters: l.Filters, Limit: l.Limit, Message: l.Message,
		}, relay.Repositories)
	}
	db, err := daemon.OpenStoreReadOnly(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = each(ctx, db, nil, func(json []byte) error {
		if e, err := wire.ParseEvent(json); err == nil {
			r.Event(e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	return r.Text(), nil
}
