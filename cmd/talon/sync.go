package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/negentropy"
	"talon/host/relayclient"
)

func syncCommand() *cobra.Command {
	var s syncing
	var who signing
	var filter, dir, from, to string
	cmd := &cobra.Command{
		Use:   "sync [URL]",
		Short: "Bring the database, or a relay, in line with another relay",
		Long: `Compare events with a relay (NIP-77) and copy what one side lacks.

With a URL the sides are the database of --data and that relay; --dir says which way events go: down from the relay, up to it, or both. The server must not be
running on the same data: what comes in passes the same checks and the same policy as what a client sends, and the policy may remember it. While a server runs,
sync with the server instead: talon sync --from URL --to ws://localhost:7334.

With --from and --to the sides are two relays, and no data folder is touched; --dir both copies in both directions. A relay that cannot compare is read page by page.
Events that a filter does not match, or whose signature is wrong, are not copied.

A server that runs follows relays by itself: sync status shows how that goes.`,
		Example: `  talon sync wss://relay.example.com --filter '{"kinds":[30617,30618]}'
  talon sync wss://relay.example.com --dir both
  talon sync --from wss://old.example.com --to ws://localhost:7334`,
		Args: cobra.MaximumNArgs(1),
	}
	loader := config.Flags(cmd.Flags(), config.Always|config.Deciding)
	cmd.AddCommand(syncStatusCommand(), syncNowCommand(), syncUnbarCommand())
	who.keyFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&filter, "filter", "{}", "which events: a `filter` of NIP-01; keys and ids may be npub, note and nevent")
	f.StringVar(&dir, "dir", "", "the `direction`: down, up or both (default down; with --from and --to it is from one to the other, or both)")
	f.StringVar(&from, "from", "", "the relay `url` to copy from")
	f.StringVar(&to, "to", "", "the relay `url` to copy to")
	f.DurationVar(&s.timeout, "timeout", time.Minute, "how long to wait for one answer of a relay")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		between := from != "" || to != ""
		switch {
		case between && (from == "" || to == "" || len(args) > 0):
			return errors.New("two relays are named with --from and --to, one with its URL alone")
		case !between && len(args) == 0:
			return errors.New("no relay was given: name one, such as wss://relay.example.com")
		case from != "" && from == to:
			return errors.New("--from and --to are the same relay")
		}
		if err := s.direct(dir, between); err != nil {
			return err
		}
		addresses := args
		if between {
			addresses = []string{from, to}
		}
		if err := (&sending{timeout: s.timeout}).check(addresses); err != nil {
			return err
		}
		q, err := newQuery([]byte(filter), maxQuery)
		if err != nil {
			return fmt.Errorf("the filter is wrong: %w", err)
		}
		if q.filter.Limit >= 0 {
			return errors.New("the filter is wrong: with a limit, two relays would mean different events")
		}
		s.filter = q.filter
		key, err := who.openIfNamed()
		if err != nil {
			return err
		}
		if key != nil {
			defer key.close()
		}
		s.out, s.progress = cmd.OutOrStdout(), newProgress(cmd.ErrOrStderr())
		relay := func(address string) *relaySide {
			return &relaySide{newTarget(cmd, &sending{timeout: s.timeout}, address, key)}
		}
		if between {
			return s.run(cmd.Context(), relay(from), relay(to))
		}
		cfg, log, err := load(cmd, loader)
		if err != nil {
			return err
		}
		core, err := daemon.OpenCore(cmd.Context(), cfg, log, false)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
		stopped := make(chan error, 1)
		go func() { stopped <- core.Run(ctx) }()
		err = s.run(cmd.Context(), &localSide{core: core, source: &host.Source{Origin: host.FromSync, Relay: args[0]}}, relay(args[0]))
		stop()
		return errors.Join(err, <-stopped, core.Close(context.WithoutCancel(cmd.Context())))
	}
	return cmd
}

// syncing copies what one side lacks. The first side is the database, or the relay to
// copy from.
type syncing struct {
	filter   host.Filter
	timeout  time.Duration
	there    bool // from the first side to the second
	back     bool
	out      io.Writer
	progress *progress
}

func (s *syncing) direct(dir string, between bool) error {
	switch {
	case dir == "both":
		s.there, s.back = true, true
	case between && dir == "":
		s.there = true
	case between:
		return errors.New("with --from and --to the value of option dir can only be both")
	case dir == "" || dir == "down":
		s.back = true
	case dir == "up":
		s.there = true
	default:
		return fmt.Errorf("the value %q of option dir is wrong: want down, up or both", dir)
	}
	return nil
}

func (s *syncing) run(ctx context.Context, one, two side) (err error) {
	defer func() { err = errors.Join(err, one.close(), two.close()) }()
	defer s.progress.end()
	start := time.Now()
	have, err := s.items(ctx, one, one.name())
	if err != nil {
		return fmt.Errorf("read %s: %w", one.name(), plainError(err))
	}
	var b negentropy.Builder
	for id, at := range have {
		b.Add(negentropy.Item{CreatedAt: uint64(max(0, at)), ID: id})
	}
	lacks, beside, err := two.compare(ctx, s.filter, b.Build())
	if errors.Is(err, relayclient.ErrNoNegentropy) {
		lacks, beside, err = s.compareAll(ctx, have, two)
	}
	if err != nil {
		return fmt.Errorf("compare with %s: %w", two.name(), plainError(err))
	}
	s.progress.end()
	fmt.Fprintf(s.out, "%d events at %s; %s lacks %d of them, and has %d others\n", len(have), one.name(), two.name(), len(lacks), len(beside))
	if s.there {
		err = s.copy(ctx, lacks, one, two)
	}
	if s.back && err == nil {
		err = s.copy(ctx, beside, two, one)
	}
	s.progress.end()
	fmt.Fprintf(s.out, "done in %v\n", time.Since(start).Round(time.Millisecond))
	return err
}

// items reads a side whole, shows how far it is, and says what may be missing.
func (s *syncing) items(ctx context.Context, from side, what string) (map[host.ID]int64, error) {
	all, cut, err := from.items(ctx, s.filter, func(n int) {
		s.progress.show(func() string { return fmt.Sprintf("%s: %d events", what, n) })
	})
	if err == nil && cut > 0 {
		s.progress.end()
		fmt.Fprintf(s.out, "%s may have more events than it gives: seconds with too many for one answer: %d\n", from.name(), cut)
	}
	return all, err
}

// compareAll compares with a side that must be read whole.
func (s *syncing) compareAll(ctx context.Context, have map[host.ID]int64, two side) (lacks, beside []host.ID, err error) {
	theirs, err := s.items(ctx, two, two.name()+" cannot compare")
	if err != nil {
		return nil, nil, err
	}
	for id := range have {
		if _, ok := theirs[id]; !ok {
			lacks = append(lacks, id)
		}
	}
	for id := range theirs {
		if _, ok := have[id]; !ok {
			beside = append(beside, id)
		}
	}
	return lacks, beside, nil
}

// copyAtOnce is how many events are fetched before they are stored.
const copyAtOnce = 250

// copy takes events from one side to another and says what became of them.
func (s *syncing) copy(ctx context.Context, ids []host.ID, from, to side) error {
	var t copied
	for n := 0; n < len(ids); n += copyAtOnce {
		part := ids[n:min(len(ids), n+copyAtOnce)]
		wanted := make(map[host.ID]bool, len(part))
		for _, id := range part {
			wanted[id] = true
		}
		var list []*host.Event
		err := from.fetch(ctx, part, func(e *host.Event) {
			if !wanted[e.ID] || !s.filter.Matches(e) {
				return
			}
			delete(wanted, e.ID)
			list = append(list, e)
		})
		if err != nil {
			return fmt.Errorf("fetch from %s: %w", from.name(), plainError(err))
		}
		t.missing += len(wanted)
		if err := to.store(ctx, list, &t); err != nil {
			return fmt.Errorf("store at %s: %w", to.name(), plainError(err))
		}
		s.progress.show(func() string { return fmt.Sprintf("%s → %s: %d of %d", from.name(), to.name(), t.count(), len(ids)) })
	}
	s.progress.end()
	fmt.Fprintf(s.out, "from %s to %s: %d stored, %d known already, %d refused, %d not given\n", from.name(), to.name(), t.stored, t.known, t.refused, t.missing)
	for _, reason := range t.reasons {
		fmt.Fprintf(s.out, "  refused: %s\n", shown(reason))
	}
	return nil
}

// copied counts what became of events.
type copied struct {
	stored, known, refused, missing int
	reasons                         []string // the first few
}

func (t *copied) count() int { return t.stored + t.known + t.refused + t.missing }

// refuse counts a refusal. A few reasons are enough to see what is wrong.
func (t *copied) refuse(reason string) {
	const maximum = 5
	t.refused++
	for _, r := range t.reasons {
		if r == reason {
			return
		}
	}
	if len(t.reasons) < maximum && reason != "" {
		t.reasons = append(t.reasons, reason)
	}
}
