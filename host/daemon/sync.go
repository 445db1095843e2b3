package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"talon/host"
	"talon/host/config"
	"talon/host/ingest/retry"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/host/relaysync"
	"talon/host/relaysync/health"
	"talon/host/schnorr"
	"talon/host/throttle"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// syncing is proactive sync with other relays (GRASP-02), and what it needs.
type syncing struct {
	*relaysync.Sync
	relays   *health.Keeper
	plugins  *plugin.Registry
	changed  <-chan struct{} // receives after every change of what plugins run
	lifted   <-chan struct{} // receives after the moderation log has come to bar less
	reducers []*plugin.Reducer
}

// syncRole is sync, on whichever node it is.
type syncRole struct{ *role[*syncing] }

func (s syncRole) Publish(events []host.Published) {
	if p := s.part(); p != nil {
		p.Sync.Publish(events)
	}
}

func (s syncRole) Follow(removed []*host.Event, held []host.HeldChange) {
	if p := s.part(); p != nil {
		p.Sync.Follow(removed, held)
	}
}

func (s syncRole) Status(ctx context.Context, q relaysync.Query) (relaysync.Snapshot, error) {
	return askPart(s.role, func(p *syncing) (relaysync.Snapshot, error) { return p.Sync.Status(ctx, q) })
}

func (s syncRole) Now(ctx context.Context, url string) (int, error) {
	return askPart(s.role, func(p *syncing) (int, error) { return p.Sync.Now(ctx, url) })
}

func (s syncRole) Unbar(ctx context.Context, url string) error {
	_, err := askPart(s.role, func(p *syncing) (any, error) { return nil, p.Sync.Unbar(ctx, url) })
	return err
}

// openSync sets up sync, nil if the operator wants none. The addresses are those that
// we listen on: sync never connects to them.
func (d *Daemon) openSync(ctx context.Context, core *Core, pipeline *retry.Queue, key *relaysync.Key, listen []netip.AddrPort) (*syncRole, error) {
	if !d.cfg.Sync {
		return nil, nil
	}
	r, err := openRole(ctx, "sync", core.node, d.sync, d.log, func(ctx context.Context) (*syncing, error) {
		return d.makeSync(ctx, core, pipeline, key, listen)
	})
	if err != nil {
		return nil, err
	}
	return &syncRole{r}, nil
}

// makeSync makes what one term of sync is.
func (d *Daemon) makeSync(ctx context.Context, core *Core, pipeline *retry.Queue, key *relaysync.Key, listen []netip.AddrPort) (*syncing, error) {
	service, err := grasp.ParseService(d.cfg.Service())
	if err != nil {
		return nil, err
	}
	s := &syncing{plugins: core.Plugins, lifted: core.lifted}
	reducer := func(world string, init func() []byte) *plugin.Reducer {
		r := core.Plugins.Reducer(world, init)
		s.reducers = append(s.reducers, r)
		return r
	}
	relays, err := health.Open(ctx, module{reducer(manifest.WorldThrottle, nil)}, knownRelays{core.Store, knownHealth}, d.log)
	if err != nil {
		s.close()
		return nil, err
	}
	s.relays, s.changed = relays, reducer(manifest.WorldPolicy, nil).Changed() // it is asked nothing
	strategy := strategy{reducer(manifest.WorldStrategy, func() []byte { return s.Init() })}
	s.Sync, err = relaysync.New(relaysync.Config{
		Own:          d.cfg.Names(),
		Listen:       listen,
		Self:         key.PubKey(),
		Bootstrap:    d.cfg.Bootstrap,
		AllowPrivate: d.cfg.AllowPrivate,
		AllowPush:    d.cfg.SyncPush,
		Limits:       syncLimits(d.cfg),
		Prefix:       d.cfg.MetricsPrefix,
		Agent:        "talon/" + d.version,
		Seed:         time.Now().UnixNano(),
		Secret:       key.Secret(),
		Log:          d.log,
		Now:          time.Now,
		Panics:       d.sync,
	}, relaysync.Deps{
		Strategy: strategy,
		Ingest:   pipeline,
		Facts:    facts{core.Store},
		Local:    wantedHere{core.Store},
		Health:   relays,
		Memory:   knownRelays{core.Store, knownSync},
		Holdings: holdings{core.Store},
		Refused:  knownRelays{core.Store, knownRefused},
		Policies: func() string {
			lifts := core.Moderation.Lifts(math.MaxInt64, time.Now().Unix())
			return fmt.Sprint(rulesOf(d.version, d.cfg.Service(), core.Plugins.List()), " ", lifts)
		},
		Hosted:  core.hosted(ctx, service),
		Private: core.private,
		Namer:   core.namer,
		Verify:  schnorr.Verify,
		Sign:    key.Sign,
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends the reducers. Nothing may ask them any more.
func (s *syncing) close() {
	for _, r := range s.reducers {
		r.Close()
	}
}

func syncLimits(cfg *config.Config) relaysync.Limits {
	l := relaysync.DefaultLimits
	l.Connections, l.Subscriptions = cfg.SyncRelays, cfg.SyncSubs
	l.Relays = max(l.Relays, 10*l.Connections)
	l.Requests, l.Burst = float64(cfg.SyncRequests), 10*cfg.SyncRequests
	return l
}

// Run syncs until ctx ends.
func (s *syncing) Run(ctx context.Context) error {
	defer s.close()
	kept := make(chan error, 1)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		kept <- s.relays.Run(keeping, time.Duration(relaysync.DefaultLimits.SaveEvery)*time.Millisecond)
	}()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		followPolicies(keeping, s.changed, s.lifted, s.plugins.List, s.Forget)
	}()
	err := s.Sync.Run(ctx)
	stop()
	<-kept
	<-followed
	return err
}

// followPolicies calls forget when other policies decide than before, or the moderation log bars less:
// what was refused may be accepted now.
func followPolicies(ctx context.Context, changed, lifted <-chan struct{}, list func() []plugin.Status, forget func()) {
	was := judges(list())
	for {
		select {
		case <-ctx.Done():
			return
		case <-lifted:
			forget()
			continue
		case <-changed:
		}
		if now := judges(list()); !slices.Equal(now, was) {
			was = now
			forget()
		}
	}
}

// judge is a policy that decides.
type judge struct {
	name       string
	generation int64
	position   int
}

func judges(list []plugin.Status) (all []judge) {
	for _, st := range list {
		if r := st.Running; r != nil && st.Mode == sidecar.Enforce && slices.Contains(r.Worlds, manifest.WorldPolicy) {
			all = append(all, judge{st.Name, r.Generation, r.Place})
		}
	}
	return all
}

// rulesOf returns a hash of all that decides about events. With the same hash, refused events are
// refused again.
func rulesOf(version, service string, list []plugin.Status) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", version, service)
	for _, st := range list {
		if r := st.Running; r != nil && st.Mode == sidecar.Enforce && slices.Contains(r.Worlds, manifest.WorldPolicy) {
			fmt.Fprintf(h, " %q %d %q %d", st.Name, r.Generation, r.SHA256, r.Place)
			for _, set := range r.Sets {
				fmt.Fprintf(h, " %q %d", set.Name, set.Members)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hosted reports which repositories are followed on other relays: those that list this
// service, and those that have a git repository here all the same, which are archives
// (GRASP-05), while archives are kept. An announcement that is here only to name maintainers
// has none.
func (c *Core) hosted(ctx context.Context, service grasp.Service) func(*grasp.Announcement) (bool, error) {
	return func(a *grasp.Announcement) (bool, error) {
		if listed := a.ListsService(service); listed || !archives(c.Plugins.Describe()) {
			return listed, nil
		}
		return c.Disk.Here(ctx, host.Address{Kind: grasp.KindAnnouncement, PubKey: a.PubKey, D: a.Identifier})
	}
}

// archives reports whether the policy that hosts repositories keeps archives of others. Where
// none says that it hosts any, what is here was accepted by rules that nobody states.
func archives(about []host.Description) bool {
	return !hosts(about) || slices.ContainsFunc(about, func(d host.Description) bool { return slices.Contains(d.Grasps, "GRASP-05") })
}

// openKey reads the relay's own key, and makes it with the first start.
func (d *Daemon) openKey() (*relaysync.Key, error) {
	return relaysync.OpenKey(filepath.Join(d.cfg.GitFolder(), "relay.key"))
}

// strategy is the plugin that says what is asked of which relay.
type strategy struct{ *plugin.Reducer }

func (s strategy) Call(ctx context.Context, request []byte, now int64) ([]byte, bool, error) {
	answer, fresh, err := s.Reducer.Call(ctx, guest.Step, request, now)
	if errors.Is(err, plugin.ErrNoPlugin) {
		err = relaysync.ErrNoStrategy
	}
	return answer, fresh, err
}

// module is the plugin that says how hard to press on the servers of others.
type module struct{ plugin *plugin.Reducer }

func (m module) Ask(ctx context.Context, q throttle.Function, request []byte, now int64) ([]byte, error) {
	f := [throttle.Questions]guest.Func{
		throttle.Delay: guest.ThrottleDelay,
		throttle.Admit: guest.ThrottleAdmit,
		throttle.After: guest.ThrottleAfter,
		throttle.Pick:  guest.ThrottlePick,
	}[q]
	answer, _, err := m.plugin.Call(ctx, f, request, now)
	if errors.Is(err, plugin.ErrNoPlugin) {
		err = throttle.ErrNoModule
	}
	return answer, err
}

// knownRelays is what the store keeps of relays, or of git servers by their domains,
// of one sort.
type knownRelays struct {
	store Store
	about string
}

func (k knownRelays) Load(ctx context.Context) (map[string][]byte, error) {
	return k.store.Relays(ctx, k.about)
}

func (k knownRelays) Save(ctx context.Context, relays map[string][]byte) error {
	return k.store.SaveRelays(ctx, k.about, relays)
}

// holdings is what the store keeps of what relays hold.
type holdings struct{ store Store }

func (h holdings) Load(ctx context.Context, relay string) ([]byte, error) {
	return h.store.Relay(ctx, knownHoldings, relay)
}

func (h holdings) Save(ctx context.Context, relays map[string][]byte) error {
	return h.store.SaveRelays(ctx, knownHoldings, relays)
}

// addresses are those of the listeners.
func addresses(listeners []net.Listener) []netip.AddrPort {
	var list []netip.AddrPort
	for _, l := range listeners {
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			list = append(list, tcp.AddrPort())
		}
	}
	return list
}

// wantedHere is the store as sync compares it with relays: what the operator has taken down is not
// missing.
type wantedHere struct{ Store }

// HeldBy returns the held events for everybody that match.
func (s wantedHere) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	return pageFacts(s).HeldBy(ctx, f)
}

func (s wantedHere) Missing(ctx context.Context, ids []host.ID) ([]host.ID, error) {
	missing, err := s.Store.Missing(ctx, ids)
	if err != nil || len(missing) == 0 {
		return missing, err
	}
	return s.NotTakenDown(ctx, missing)
}
