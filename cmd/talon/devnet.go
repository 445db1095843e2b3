package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/devnet"
	"talon/cmd/internal/lab/scenario"
	"talon/host/admin"
	"talon/host/relaymodel"
)

// devnetRun are the options of talon devnet that are not those of its network.
type devnetRun struct {
	net        devnet.Config
	scenario   string
	serve      bool
	plugins    string
	lasts      time.Duration
	untilQuiet bool
	json       bool
	serveArgs  []string
}

func devnetCommand() *cobra.Command {
	o := devnetRun{net: devnet.DefaultConfig}
	c := &o.net
	cmd := &cobra.Command{
		Use:   "devnet [flags] [-- FLAGS OF TALON SERVE]",
		Short: "Run a small nostr network, to see sync at work",
		Long: `Run relays and git servers on the loopback interface, with generated repositories that list Talon at --talon, until SIGINT or SIGTERM, and show
what each relay has and what Talon misses of it.

--relays names them: a number of khatru's, and others by the profile of their manners and a number, such as 2,strfry:3,paid:1. Profiles of relays that
exist: ` + strings.Join(relaymodel.Names(), ", ") + `; of relays with a fault: ` + strings.Join(relaymodel.Faults(), ", ") + `;
or a file, such as ./mine.toml:2. What belongs to Talon is always on a relay too from which it can be had.

--scenario plays a scenario of the lab (see talon lab) in place of the network that options describe: its relays, git servers, repositories, publications
and outages, with real keys and git objects, in the time of the clock. It refuses a scenario with what only a simulation has.

With --serve a Talon is started too, on a new data folder; what follows -- are more flags for it. Otherwise start one with the command that is printed.
The same seed makes the same keys, events and git objects. All is in memory or in a temporary folder, and gone at the end.`,
		Example: `  talon devnet --serve
  talon devnet --serve --relays 20 --repos 200 --outage-every 10s --git-failing 2
  talon devnet --serve --relays 1,strfry:2,nostream:1,dead:1 --for 2m --until-quiet --json
  talon devnet --serve --scenario mine.toml --for 2m
  talon devnet --talon 127.0.0.1:7334 --rate 5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.serveArgs = args
			switch dash := cmd.ArgsLenAtDash(); {
			case len(args) > 0 && dash != 0:
				return fmt.Errorf("%.100q is no option: flags of talon serve follow --", args[0])
			case len(args) > 0 && !o.serve:
				return errors.New("flags of talon serve were given without --serve")
			}
			if err := o.checkServeArgs(); err != nil {
				return err
			}
			if err := o.partners(cmd.Flags().Changed); err != nil {
				return err
			}
			if o.scenario != "" {
				s, _, err := scenario.Open(o.scenario)
				if err != nil {
					return err
				}
				o.net.Scenario = s
			}
			if err := o.checkGitData(); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Talon, "talon", c.Talon, "`address` of the Talon that repositories list")
	f.BoolVar(&o.serve, "serve", false, "start a Talon there")
	f.StringVar(&o.plugins, "plugins", "", "`folder` of that Talon's modules (default that of talon serve)")
	f.DurationVar(&o.lasts, "for", 0, "end after this `time`; 0 means never")
	f.BoolVar(&o.untilQuiet, "until-quiet", false, "end when Talon has exactly the expected events; it is an error if it does not have them at the end of --for")
	f.IntVar(&c.Port, "port", 7400, "`port` of the first relay; other relays, then git servers take those that follow, and 0 takes free ones")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "`number` from which everything is made")

	f.StringVar(&o.scenario, "scenario", "", "a scenario of the lab: a `file`, or the name of one that is built in")
	f.Var(relaysFlag{c}, "relays", "`relays`: a number of khatru's, others as PROFILE:NUMBER")
	f.BoolVar(&o.json, "json", false, "write the result as one JSON object at the end, and all else to stderr")
	f.IntVar(&c.Bootstrap, "bootstrap", c.Bootstrap, "`relays` that have all announcements, and that Talon begins with")
	f.IntVar(&c.GitServers, "git-servers", c.GitServers, "git `servers`")
	f.IntVar(&c.Repos, "repos", c.Repos, "`repositories`")
	f.IntVar(&c.Roots, "roots", c.Roots, "issues, patches and pull requests of one repository, on average: `events`")
	f.IntVar(&c.Comments, "comments", c.Comments, "comments and status changes of one root, on average: `events`")
	f.IntVar(&c.RelaysPer, "relays-per", c.RelaysPer, "`relays` that a repository lists")
	f.IntVar(&c.ClonesPer, "clones-per", c.ClonesPer, "git `servers` that a repository lists")
	f.Float64Var(&c.Split, "split", c.Split, "`share` of repositories whose servers have only a part of the objects each")
	f.Float64Var(&c.Noise, "noise", c.Noise, "repositories that do not list Talon, as a `share` of those that do")

	f.Float64Var(&c.Negentropy, "negentropy", c.Negentropy, "`share` of khatru's relays that compare (NIP-77)")
	f.DurationVar(&c.Latency, "latency", c.Latency, "`time` that all that servers send is late")
	f.Float64Var(&c.Drop, "drop", c.Drop, "`share` of relays' messages at which the connection breaks")
	f.Float64Var(&c.Lose, "lose", c.Lose, "`share` of new events that a subscriber of khatru's relays is not told")
	f.Float64Var(&c.RateLimit, "rate-limit", c.RateLimit, "`filters` and events that a relay of khatru's takes from one connection in a second; 0 means all")
	f.IntVar(&c.MaxLimit, "max-limit", c.MaxLimit, "most `events` of one answer of khatru's relays; 0 means all")
	f.Float64Var(&c.Rate, "rate", c.Rate, "new `events` in a second, over all relays")
	f.DurationVar(&c.OutageEvery, "outage-every", c.OutageEvery, "cut off one relay after the other, each this `time`; 0 means never")
	f.DurationVar(&c.OutageFor, "outage-for", c.OutageFor, "the `time` that a relay is cut off")
	f.IntVar(&c.GitFailing, "git-failing", c.GitFailing, "git `servers` that fail at any time, in turn: with 404, 500, silence, a reset connection")
	f.DurationVar(&c.GitTurn, "git-turn", c.GitTurn, "the `time` of a turn")
	return cmd
}

func (o *devnetRun) run(cmd *cobra.Command) (err error) {
	dir, err := os.MkdirTemp("", "talon-devnet-")
	if err != nil {
		return fmt.Errorf("make a folder for the network: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.net.Dir = filepath.Join(dir, "net")
	o.net.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := os.Mkdir(o.net.Dir, 0o755); err != nil {
		return fmt.Errorf("make a folder for the network: %w", err)
	}
	out := cmd.OutOrStdout()
	if o.json {
		out = cmd.ErrOrStderr()
	}
	fmt.Fprintln(out, "making the network")
	n, err := devnet.Open(cmd.Context(), o.net)
	if err != nil {
		return err
	}
	fmt.Fprint(out, o.describe(n))

	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ran)
	}()
	var served <-chan error
	var said claims
	if o.serve {
		fmt.Fprintf(out, "data of Talon, until the end: %s\n", filepath.Join(dir, "data"))
		said.server = admin.Dial(filepath.Join(dir, "data", "admin", "talon.sock"))
		ended, stop, err := o.startTalon(ctx, n, filepath.Join(dir, "data"), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer stop()
		served = ended
	}
	last, err := o.watch(ctx, n, newNetTable(out), served, &said)
	if o.json {
		err = errors.Join(err, writeNetResult(cmd.OutOrStdout(), n, last))
	}
	return err
}

// describe says where everything is.
func (o *devnetRun) describe(n *devnet.Net) string {
	var b strings.Builder
	for _, r := range n.Relays {
		s := r.Status()
		fmt.Fprintf(&b, "relay %s  %s, %d events%s\n", s.URL, s.Profile, s.Events, map[bool]string{true: ", compares (NIP-77)"}[s.Negentropy])
	}
	for _, g := range n.Git {
		fmt.Fprintf(&b, "git %s\n", g.URL)
	}
	if !o.serve {
		fmt.Fprintf(&b, "start Talon so:\n  talon %s\n", strings.Join(o.talonArgs(n), " "))
	}
	return b.String()
}

// talonArgs are the arguments of the Talon in the middle.
func (o *devnetRun) talonArgs(n *devnet.Net) []string {
	args := []string{"serve", "--listen", o.net.Talon, "--allow-private", "true", "--bootstrap", strings.Join(n.Bootstrap(), ",")}
	if o.plugins != "" {
		args = append(args, "--plugins", o.plugins)
	}
	return append(args, o.serveArgs...)
}

// quietFor is how many looks in a row must find Talon in line.
const quietFor = 3

// netLook is one look at what Talon has.
type netLook struct {
	devnet.Comparison
	said   claimMoment // what Talon says of its relays
	failed error       // Talon did not answer
	began  time.Time
	quiet  int // looks in a row that found nothing wrong, this one included
}

// watch shows the network each second, until it has been looked at for long enough. It
// returns the last look.
func (o *devnetRun) watch(ctx context.Context, n *devnet.Net, t *netTable, served <-chan error, said *claims) (last netLook, err error) {
	var over <-chan time.Time
	if o.lasts > 0 {
		over = time.After(o.lasts)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last.began = t.began
	for {
		looking, cancel := context.WithTimeout(ctx, 20*time.Second)
		seen, failed := n.Compare(looking, "ws://"+o.net.Talon)
		last.said = claimMoment{}
		if failed == nil {
			last.said = said.check(looking, n, seen.Lacks)
		}
		cancel()
		if ctx.Err() != nil {
			return last, nil // a look that was broken off says nothing
		}
		last.Comparison, last.failed = seen, failed
		t.show(n, seen, last.said, failed)
		if last.quiet++; failed != nil || len(seen.Lacks)+len(seen.Beside) > 0 {
			last.quiet = 0
		}
		if o.untilQuiet && last.quiet == quietFor {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, nil
		case err := <-served:
			if ctx.Err() != nil {
				return last, nil
			}
			return last, fmt.Errorf("talon serve ended: %w", errors.Join(err, errEnded))
		case <-over:
			if !o.untilQuiet {
				return last, nil
			}
			if failed != nil {
				return last, fmt.Errorf("in %v Talon did not come in line with the network: %w", o.lasts, failed)
			}
			return last, fmt.Errorf("in %v Talon did not come in line with the network: %s", o.lasts, difference(n, seen))
		case <-tick.C:
		}
	}
}

// lackedKinds counts what Talon lacks by kind.
func lackedKinds(n *devnet.Net, c devnet.Comparison) map[int]int {
	kinds := map[int]int{}
	for _, id := range c.Lacks {
		if e, _ := n.Event(id); e != nil {
			kinds[e.Kind]++
		}
	}
	return kinds
}

// difference says what is wrong, by kinds of events.
func difference(n *devnet.Net, c devnet.Comparison) string {
	kinds := lackedKinds(n, c)
	text := fmt.Sprintf("it lacks %d events and has %d others", len(c.Lacks), len(c.Beside))
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		text += fmt.Sprintf("; %d of kind %d", kinds[k], k)
	}
	return text
}

var errEnded = errors.New("it was to run")

// startTalon starts the Talon in the middle of a network on a new data folder. Its log goes to
// log, from level warn on unless its own flags change that. ended has one value when it has
// ended. stop sends it SIGTERM, and kills it if it has not ended after 20 seconds.
func (o *devnetRun) startTalon(ctx context.Context, n *devnet.Net, data string, log io.Writer) (ended <-chan error, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the program of Talon: %w", err)
	}
	args := slices.Concat([]string{"serve", "--log-level", "warn"}, o.talonArgs(n)[1:], []string{"--data", data}) // of a flag, the last one counts
	// The end of the context does not end it: it is stopped before the network.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Args[0] = "talon" // whatever the file is called
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("start talon serve: %w", err)
	}
	exited, gone := make(chan error, 1), make(chan struct{})
	go func() {
		exited <- cmd.Wait()
		close(gone)
	}()
	return exited, func() { cancel(); <-gone }, nil
}
