package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/audience"
	"talon/host/bound"
	"talon/host/bundle"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/diskspace"
	"talon/host/ingest"
	"talon/host/moderation"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/repos"
	"talon/host/schnorr"
	"talon/host/store/semantics"
	"talon/host/users"
	"talon/internal/durable"
	"talon/sdk/abi/manifest"
)

// Core is the part of Talon that decides and stores: the database, the plugins,
// the pipeline between them.
type Core struct {
	Store    Store
	Plugins  *plugin.Registry
	Pipeline *ingest.Pipeline
	Disk     *repos.Disk      // nil unless it serves
	Users    *users.Set       // nil unless it serves
	Space    *diskspace.Watch // nil unless it serves

	Moderation *moderation.Log
	lifted     chan struct{} // has room for one value: the log bars less than before

	Audiences *audience.Audiences

	node   node
	log    *slog.Logger
	copied *moderation.File // the copy of the moderation log

	vanished *moderation.VanishedFile // the copy of the requests to vanish

	notify *contain.Guard // around each part that gets a commit
}

// OpenCore opens the database and loads the plugins. Nothing runs yet. Only a
// core that serves has git, keeps the last good plugins and follows their folder:
// another command may be given a folder for once, and what it holds waits until
// somebody serves.
func OpenCore(ctx context.Context, cfg *config.Config, log *slog.Logger, serving bool) (*Core, error) {
	db, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	return openCore(ctx, cfg, log, db, alone{}, serving)
}

// openCore is OpenCore on a database that is open, as a node.
// It closes both if it fails.
func openCore(ctx context.Context, cfg *config.Config, log *slog.Logger, db Store, node node, serving bool) (_ *Core, err error) {
	c := &Core{Store: db, node: node, Moderation: new(moderation.Log), lifted: make(chan struct{}, 1), log: log, notify: contain.New(contain.Notify, log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := makePluginFolder(cfg); err != nil {
		return nil, err
	}
	if err := c.loadModeration(ctx, cfg.Data); err != nil {
		return nil, err
	}
	if err := c.loadVanished(cfg.Data); err != nil {
		return nil, err
	}
	o := plugin.Options{
		Dir:        cfg.PluginFolder(),
		Policy:     cfg.Policy,
		CacheDir:   filepath.Join(cfg.Data, "wasm-cache"),
		Compiler:   cfg.Compiler,
		Bundled:    bundle.Own(),
		AllowExec:  cfg.AllowExec,
		Signers:    cfg.PluginSigners,
		Limits:     guest.Limits{Fuel: cfg.Fuel, Memory: cfg.ModuleMemory},
		Disk:       db,
		StateQuota: cfg.ModuleState,
		Facts:      facts{db},
		Held:       db,
		Service:    service(cfg),
		Log:        log,
	}
	o.Allowed = func(member []byte) bool { return c.Moderation.Allowed(member, time.Now().Unix()) }
	if serving {
		o.History = filepath.Join(cfg.Data, "generations")
		o.Decisions = cfg.Decisions
		o.Nodes, o.Watch = node.plugins(cfg.PluginsNode)
		if c.Disk, err = openDisk(ctx, cfg, db, node, c.Moderation); err != nil {
			return nil, err
		}
		o.Git = c.Disk
		c.Users = users.New(users.Config{Store: facts{db}, Here: c.Disk.Here, Named: named(cfg), Log: log, Now: time.Now})
		if err := c.Users.Load(ctx); err != nil {
			return nil, err
		}
		o.Known = c.Users.KnowsKey
		c.Space = diskspace.New(dataFolders(cfg), minFree(cfg), log)
		limitLoading(cfg)
	}
	if c.Plugins, err = plugin.Open(ctx, o); err != nil {
		return nil, fmt.Errorf("load the plugins: %w", err)
	}
	c.Audiences = audience.New(audience.Config{Modules: c.Plugins, Store: db, Log: log, Now: time.Now})
	if err := c.Audiences.Load(ctx); err != nil {
		return nil, err
	}
	var held semantics.HeldLimits
	held.SetDefaults()
	c.Pipeline = ingest.New(ingest.Config{
		Verify: schnorr.Verify,
		Policy: roomy{trusting{c.Plugins, trustedReporters(cfg)}, c.Space},
		Store:  db,
		Facts:  facts{db},
		Held:   db,
		Log:    log,
		Now:    time.Now,

		Users: c.Users,

		Moderation: c.Moderation,
		Audiences:  c.Audiences,

		NamesRelay: namesRelay(cfg),
		Refused:    c.Plugins.Refused,

		Quota:    ingest.Quota{ByAuthor: held.ByAuthor, ByNetwork: bound.Share(held.Events)},
		EachHeld: db.EachHeld,

		Workers: cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)),
		Queue:   cfg.Queue,
		Batch:   cfg.Batch,
	})
	return c, nil
}

// makePluginFolder makes the operator's folder of modules where the server has it in its data folder.
func makePluginFolder(cfg *config.Config) error {
	if err := CheckPlugins(cfg); err != nil || cfg.Plugins != "" {
		return err
	}
	if err := durable.Mkdir(cfg.PluginFolder(), 0o755); err != nil {
		return fmt.Errorf("make the folder of plugins: %w", err)
	}
	return nil
}

// CheckPlugins returns why a server cannot run with the configured folder of plugins.
func CheckPlugins(cfg *config.Config) error {
	if cfg.Plugins == "" {
		if bundle.Own() == nil {
			return errors.New("this program was built without modules: give --plugins FOLDER, a folder with .wasm files, or build it with make build")
		}
		return nil
	}
	if info, err := os.Stat(cfg.Plugins); err != nil || !info.IsDir() {
		return fmt.Errorf("the value %q of option plugins is wrong: there is no such folder", cfg.Plugins)
	}
	return nil
}

// named returns the people whom the operator names: themselves, and the option known.
func named(cfg *config.Config) (list []host.PubKey) {
	var operator host.PubKey
	if host.ParseHex(operator[:], cfg.PubKey) {
		list = append(list, operator)
	}
	for _, key := range cfg.Known {
		list = append(list, key)
	}
	return list
}

// dataFolders are the folders whose disks must have room.
func dataFolders(cfg *config.Config) []diskspace.Folder {
	list := []diskspace.Folder{{Name: "data", Path: cfg.Data}}
	if cfg.GitFolder() != cfg.Data {
		list = append(list, diskspace.Folder{Name: "git", Path: cfg.GitFolder()})
	}
	return list
}

// roomy asks the policy only about events for which the disk has room. Ephemeral events need none.
type roomy struct {
	ingest.Policy
	space *diskspace.Watch // nil: there is always room
}

func (p roomy) Admit(ctx context.Context, it *host.Item, facts *host.FactReader, now int64) (host.Ruling, error) {
	if p.space != nil && p.space.Full() && it.Event.Kind.Class() != host.Ephemeral {
		return host.Ruling{}, host.ErrFull
	}
	return p.Policy.Admit(ctx, it, facts, now)
}

// Run decides about events and stores them until ctx ends and all submitted events are
// answered. Every commit goes to each of out.
func (c *Core) Run(ctx context.Context, out ...follower) error {
	// Plugins may remember something until the last decision.
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	stopped := make(chan error, 4)
	go func() { stopped <- c.Plugins.Run(last) }()
	go func() { stopped <- c.copyModeration(last) }()
	go func() { stopped <- c.copyVanished(last) }()
	go func() { stopped <- c.Audiences.Run(ctx, c.setAudiences) }()
	err := c.Store.run(ctx, c.Pipeline, committed{c.Plugins, out, c.notify})
	stop()
	return errors.Join(err, <-stopped, <-stopped, <-stopped, <-stopped)
}

// private reports whether a repository is not for everybody.
func (c *Core) private(a host.Address) bool { return c.Audiences.Repository(a) != nil }

// setAudiences has the pipeline change who receives stored events.
func (c *Core) setAudiences(ctx context.Context, list []audience.Change) error {
	changes := make([]ingest.AudienceChange, len(list))
	for i := range list {
		changes[i] = ingest.AudienceChange(list[i])
	}
	_, err := c.Pipeline.SetAudiences(ctx, changes)
	return err
}

// follower is a part that gets commits, by functions of which each may be nil: what is
// published, and what is removed or changes in purgatory.
type follower struct {
	publish func([]host.Published)
	follow  func(removed []*host.Event, held []host.HeldChange)

	takenDown func(removed []*host.Event)

	// missed is called when commits of other processes are not known in full.
	missed func()

	// ownOnly leaves out what another process has committed. Repositories are on a disk that
	// all processes share: the one that has committed has seen to them.
	ownOnly bool
}

// committed hands each commit on, to the sets of plugins first. A part that panics misses this
// commit, and no other part does.
type committed struct {
	plugins *plugin.Registry
	out     []follower
	panics  *contain.Guard
}

func (p committed) Publish(events []host.Published) {
	p.contain(func() { p.plugins.Published(context.Background(), events) })
	for _, out := range p.out {
		if out.publish != nil {
			p.contain(func() { out.publish(events) })
		}
	}
}

func (p committed) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, out := range p.out {
		if out.follow != nil {
			p.contain(func() { out.follow(removed, held) })
		}
	}
}

// TakenDown passes on what a takedown has removed.
func (p committed) TakenDown(removed []*host.Event) {
	for _, out := range p.out {
		if out.takenDown != nil {
			p.contain(func() { out.takenDown(removed) })
		}
	}
}

// missed says that earlier commits of other processes are not known in full.
func (p committed) missed() {
	for _, out := range p.out {
		if out.missed != nil {
			p.contain(out.missed)
		}
	}
}

func (p committed) contain(f func()) {
	_ = p.panics.Run(func() error {
		f()
		return nil
	})
}

// remote passes on what another process has committed.
func (p committed) remote(c host.Commit) {
	if c.Plugins != 0 {
		p.plugins.Switch(c.Plugins)
	}
	p.out = slices.DeleteFunc(slices.Clone(p.out), func(f follower) bool { return f.ownOnly })
	if c.Gap {
		p.missed()
	}
	if len(c.Published) > 0 {
		p.Publish(c.Published)
	}
	if len(c.Removed)+len(c.Held) > 0 {
		p.Follow(c.Removed, c.Held)
	}
	if len(c.Removed) > 0 && len(c.Published) == 0 {
		// A takedown is a commit of its own. So is the removal of what has expired.
		p.TakenDown(c.Removed)
	}
}

// namer says who sent a held event by an author, for the limits of what such events name.
func (c *Core) namer(event host.ID, author host.PubKey) bound.Namer {
	from := c.Pipeline.Origin(event)
	return bound.Namer{Addr: from, Author: string(author[:]), Known: c.Users.Knows(author, from)}
}

// Close releases what OpenCore opened. Run must have returned.
func (c *Core) Close(ctx context.Context) error {
	var err error
	if c.Plugins != nil {
		err = c.Plugins.Close(ctx)
	}
	if c.Disk != nil {
		c.Disk.Close()
	}
	return errors.Join(err, c.Store.Close(), c.node.Close())
}

// Collectors returns the metrics of all parts.
func (c *Core) Collectors() []prometheus.Collector {
	list := append(c.Store.Collectors(), c.notify.Collector())
	if c.Space != nil {
		list = append(list, c.Space.Collectors()...)
	}
	list = append(list, c.Plugins.Collectors()...)
	return append(list, c.Pipeline.Collectors()...)
}

// service returns what every plugin gets to know of this relay.
func service(cfg *config.Config) host.Service {
	s := host.Service{Domain: cfg.Service(), PRs: cfg.PRs}
	host.ParseHex(s.Operator[:], cfg.PubKey) // where none is named, it stays zeros
	return s
}

// describe returns what the plugins say of the relay, and what they and the host are
// together: repositories that a policy hosts (GRASP-01) are kept complete from other
// servers (GRASP-02) while sync and the hunt run.
func describe(cfg *config.Config, plugins *plugin.Registry) func() []host.Description {
	return func() []host.Description {
		about := plugins.Describe()
		if cfg.Sync && cfg.Hunt && hosts(about) && plugins.Serves(manifest.WorldStrategy) {
			about = append(slices.Clip(about), host.Description{Grasps: []string{"GRASP-02"}})
		}
		return about
	}
}

func hosts(about []host.Description) bool {
	return slices.ContainsFunc(about, func(d host.Description) bool { return d.Hosts() })
}
