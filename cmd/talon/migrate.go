package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/relayclient"
	"talon/sdk/grasp"
)

func migrateCommand() *cobra.Command {
	var m migration
	var from []string
	var to string
	cmd := &cobra.Command{
		Use:   "migrate --from SOURCE... [--to RELAY]",
		Short: "Bring everything from another GRASP server to a Talon that runs",
		Long: `Bring events, git data and pull requests from another server to a Talon that runs. The new server takes them as it takes what people send: it checks every
signature, asks its policies, and accepts the refs that the maintainers' states sign. Its domain must be the one that the announcements name.

Each SOURCE is one of these:
  ws://HOST or wss://HOST   a GRASP server, such as ngit-grasp or ngit-relay, or a relay: its events, and its
                            repositories over HTTP
  FILE.jsonl                events, one a line, as strfry export and talon export write them
  FOLDER                    repositories at NPUB/IDENTIFIER.git, and below prs, as ngit-grasp and ngit-relay keep
                            them; and what waits in its purgatory-state.json

The old server may run. What the new one has already is not sent again: migrate once while the old server serves people, and once more, briefly, at the switch.
At last every repository is cloned from the new server and its refs are compared, and both sides answer the same filters. The exit code is 1 if something differs.`,
		Example: `  talon migrate --from wss://old.example.com --to ws://127.0.0.1:7334
  talon migrate --from strfry.jsonl
  talon migrate --from /var/lib/ngit-grasp/git --from ws://127.0.0.1:8080`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&from, "from", nil, "`source`: a URL, a file of events, or a folder of repositories; may be repeated")
	f.StringVar(&to, "to", "ws://127.0.0.1:7334", "`url` of the new server")
	f.IntVar(&m.filters, "filters", 1000, "`number` of filters that both sides answer at last")
	f.DurationVar(&m.timeout, "timeout", time.Minute, "how long to wait for one answer of a relay")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(from) == 0 {
			return errors.New("no source is named: add --from URL, --from FILE.jsonl or --from FOLDER")
		}
		if err := (&sending{timeout: m.timeout}).check([]string{to}); err != nil {
			return err
		}
		m.out, m.progress = cmd.OutOrStdout(), newProgress(cmd.ErrOrStderr())
		m.relay = func(address string) *relaySide {
			return &relaySide{newTarget(cmd, &sending{timeout: m.timeout}, address, nil)}
		}
		m.to, m.web = m.relay(to), "http"+strings.TrimSuffix(strings.TrimPrefix(to, "ws"), "/")
		return m.run(cmd.Context(), from)
	}
	return cmd
}

// migration is one run of talon migrate.
type migration struct {
	filters  int
	timeout  time.Duration
	out      io.Writer
	progress *progress
	relay    func(address string) *relaySide

	to  *relaySide
	web string // URL of the new server for git

	sources []migrationSource
	repos   map[string]gitOrigin // by the path of the URL, such as /npub1…/x.git and /prs/npub1…/x.git
	signed  map[signedRef]bool   // what the states of the sources say

	sent, known int
	answered    map[host.ID]bool   // in this run
	waits       map[host.ID]bool   // of waiting: a source serves them, and the new server does not
	refused     map[host.ID]string // reasons by event
	waiting     map[host.ID]bool   // the new server holds them until git data or another event arrives
	differences []string
}

// signedRef is a ref of the repositories of an identifier, and its object.
type signedRef struct{ identifier, ref, object string }

// run brings everything over, and compares.
func (m *migration) run(ctx context.Context, from []string) (err error) {
	m.repos, m.signed = map[string]gitOrigin{}, map[signedRef]bool{}
	m.answered, m.refused, m.waiting = map[host.ID]bool{}, map[host.ID]string{}, map[host.ID]bool{}
	m.waits = map[host.ID]bool{}
	defer func() {
		for _, s := range m.sources {
			_ = s.close()
		}
		_ = m.to.close()
		m.progress.end()
	}()
	for _, name := range from {
		if err := m.open(ctx, name); err != nil {
			return fmt.Errorf("open the source %s: %w", name, plainError(err))
		}
	}
	began := time.Now()
	// 1. Repositories, one identifier after the other: what is held does not wait for long.
	if err := m.bringRepositories(ctx); err != nil {
		return err
	}
	// 2. All other events.
	for _, s := range m.sources {
		if err := m.bringEvents(ctx, s); err != nil {
			return fmt.Errorf("bring the events of %s: %w", s.name(), plainError(err))
		}
	}
	// 3. Pull requests: their events are known now.
	for _, path := range slices.Sorted(maps.Keys(m.repos)) {
		if err := m.push(ctx, path, isPullRef); err != nil {
			return err
		}
	}
	m.progress.end()
	fmt.Fprintf(m.out, "%d events sent, %d known already, %d refused; %d repositories, in %v\n",
		m.sent, m.known, len(m.refused), len(m.repos), time.Since(began).Round(time.Millisecond))
	m.writeRefused()
	// 4. Compare.
	if err := m.compareClones(ctx); err != nil {
		return err
	}
	if err := m.compareFilters(ctx); err != nil {
		return err
	}
	m.progress.end()
	if len(m.waits) > 0 {
		fmt.Fprintf(m.out, "%d events wait at the new server, such as those of a repository without git data: it serves them when the rest arrives\n", len(m.waits))
	}
	for _, d := range m.differences {
		fmt.Fprintln(m.out, "differs: "+shown(d))
	}
	if n := len(m.differences); n > 0 {
		return fmt.Errorf("%d differences: if the old server has changed meanwhile, run it again", n)
	}
	fmt.Fprintln(m.out, "no difference")
	return nil
}

// bringRepositories sends announcements and states, and pushes what they sign.
func (m *migration) bringRepositories(ctx context.Context) error {
	events := map[string][]*host.Event{} // by identifier
	for _, s := range m.sources {
		err := s.each(ctx, []host.Kind{host.KindAnnouncement, grasp.KindState}, func(e *host.Event) {
			events[e.D()] = append(events[e.D()], e)
		})
		if err != nil {
			return fmt.Errorf("read the repositories of %s: %w", s.name(), plainError(err))
		}
	}
	paths := map[string][]string{} // by identifier
	for path := range m.repos {
		if p, err := grasp.ParsePath(path); err == nil && !p.PRs {
			paths[p.Repo.Identifier] = append(paths[p.Repo.Identifier], path)
		}
	}
	for n, identifier := range slices.Sorted(maps.Keys(events)) {
		list := events[identifier]
		slices.SortFunc(list, func(a, b *host.Event) int {
			if a.Kind != b.Kind {
				return int(a.Kind) - int(b.Kind)
			}
			return int(a.CreatedAt - b.CreatedAt)
		})
		for _, e := range list {
			state, err := e.State()
			if e.Kind != grasp.KindState || err != nil {
				continue
			}
			for _, ref := range state.Refs {
				m.signed[signedRef{identifier, ref.Name, ref.Object}] = true
			}
		}
		if err := m.send(ctx, list); err != nil {
			return err
		}
		for _, path := range paths[identifier] {
			if err := m.push(ctx, path, isStateRef); err != nil {
				return err
			}
		}
		m.progress.show(func() string { return fmt.Sprintf("%d of %d repositories", n+1, len(events)) })
	}
	return nil
}

// bringEvents sends what the new server lacks of a source.
func (m *migration) bringEvents(ctx context.Context, s migrationSource) error {
	items, cut, err := s.items(ctx, host.Filter{Limit: -1}, func(n int) {
		m.progress.show(func() string { return fmt.Sprintf("%s: %d events", s.name(), n) })
	})
	if err != nil {
		return err
	}
	if cut > 0 {
		m.differ("%s may have more events than it gives: seconds with too many for one answer: %d", s.name(), cut)
	}
	there, _, err := m.to.items(ctx, host.Filter{Limit: -1}, func(n int) {
		m.progress.show(func() string { return fmt.Sprintf("the new server: %d events", n) })
	})
	if err != nil {
		return err
	}
	var ids []host.ID
	for id := range items {
		_, ok := there[id]
		switch {
		case m.answered[id]:
		case ok:
			m.known++
		default:
			ids = append(ids, id)
		}
	}
	// Oldest first: an event comes after those that it refers to.
	slices.SortFunc(ids, func(a, b host.ID) int { return int(items[a] - items[b]) })
	for n := 0; n < len(ids); n += copyAtOnce {
		var list []*host.Event
		if err := s.fetch(ctx, ids[n:min(len(ids), n+copyAtOnce)], func(e *host.Event) { list = append(list, e) }); err != nil {
			return err
		}
		slices.SortFunc(list, func(a, b *host.Event) int { return int(a.CreatedAt - b.CreatedAt) })
		if err := m.send(ctx, list); err != nil {
			return err
		}
		m.progress.show(func() string { return fmt.Sprintf("%s: %d of %d events", s.name(), n, len(ids)) })
	}
	return nil
}

const (
	// maxSends is how often an event is sent that the server cannot take at the moment.
	maxSends = 20

	// maxSendWait is the longest wait before it is sent again.
	maxSendWait = 30 * time.Second
)

// send sends events to the new server, again where it asks for that.
func (m *migration) send(ctx context.Context, events []*host.Event) error {
	events = slices.DeleteFunc(events, func(e *host.Event) bool { return m.answered[e.ID] })
	for tries, wait := 1, time.Second; len(events) > 0; tries, wait = tries+1, min(2*wait, maxSendWait) {
		var later []*host.Event
		err := m.to.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
			return c.PublishAll(ctx, events, func(e *host.Event, res relayclient.Result) {
				m.answered[e.ID] = true
				m.waiting[e.ID] = res.OK && strings.HasPrefix(res.Reason, "purgatory:")
				busy := strings.HasPrefix(res.Reason, "rate-limited:") || strings.HasPrefix(res.Reason, "error:")
				switch {
				case res.OK && strings.HasPrefix(res.Reason, "duplicate:"):
					m.known++
					delete(m.refused, e.ID)
				case res.OK:
					m.sent++
					delete(m.refused, e.ID)
				case busy && tries < maxSends:
					later = append(later, e)
				default:
					m.refused[e.ID] = res.Reason
				}
			})
		})
		if err != nil {
			return fmt.Errorf("send events to %s: %w", m.to.name(), plainError(err))
		}
		if events = later; len(events) > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// writeRefused says which reasons the new server gave, the most frequent first.
func (m *migration) writeRefused() {
	count := map[string]int{}
	for _, reason := range m.refused {
		count[reason]++
	}
	reasons := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		if n := count[b] - count[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for i, reason := range reasons {
		if i == maxReasons {
			fmt.Fprintf(m.out, "%8d other reasons\n", len(reasons)-i)
			return
		}
		fmt.Fprintf(m.out, "%8d refused: %s\n", count[reason], shown(reason))
	}
}

// maxReasons bounds how many reasons are shown.
const maxReasons = 20

// maxDifferences bounds how many differences are shown.
const maxDifferences = 100

func (m *migration) differ(format string, args ...any) {
	switch n := len(m.differences); {
	case n < maxDifferences:
		m.differences = append(m.differences, fmt.Sprintf(format, args...))
	case n == maxDifferences:
		m.differences = append(m.differences, "more, which are not shown")
	}
}
