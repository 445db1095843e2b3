package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/config"
	"talon/host/githttp"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/ingest/retry"
	"talon/host/moderation"
	"talon/host/relay"
	"talon/host/repos"
	"talon/host/web"
	"talon/sdk/grasp"
)

// relayConfig translates the operator's choices for the relay.
func (d *Daemon) relayConfig(next http.Handler, about func() []host.Description, self host.PubKey) relay.Config {
	cfg := d.cfg
	limits := relay.DefaultLimits
	limits.Wire.Filters = cfg.Filters
	limits.Wire.Values = cfg.Values
	limits.Connections = cfg.Connections
	limits.ConnectionsPerAddr = cfg.ConnectionsPer
	limits.MessageBytes = int(cfg.Message)
	limits.PartialBytes = max(limits.PartialBytes, 4*int(cfg.Message))
	limits.MessagesPerSecond = float64(cfg.MessageRate)
	limits.MessageBurst = 2 * cfg.MessageRate
	limits.QueueBytes = int(cfg.SendQueue)
	limits.EventBytes = max(limits.EventBytes, 2*int(cfg.Message))
	limits.Subscriptions = cfg.Subscriptions
	limits.Values, limits.ValuesTotal = subscriptionValues(cfg)
	limits.DefaultLimit = cfg.DefaultLimit
	limits.MaxLimit = cfg.MaxLimit
	limits.NegSessionsTotal = cfg.NegSessions
	limits.NegRecords = cfg.NegRecords
	limits.NegRecordsTotal = max(limits.NegRecordsTotal, 2*cfg.NegRecords)
	limits.NegFrameBytes = int(cfg.NegFrame)
	limits.NegIdle = cfg.NegIdle
	limits.QueryTime = cfg.QueryTime
	limits.PingInterval = cfg.Ping
	limits.PongTime = min(limits.PongTime, cfg.Ping)
	limits.DrainTime = cfg.Shutdown
	limits.CompressFrom = int(cfg.CompressFrom)
	return relay.Config{
		Info: relay.Info{
			Name:        cfg.Name,
			Description: cfg.Description,
			PubKey:      cfg.PubKey,
			Contact:     cfg.Contact,
			Icon:        cfg.Icon,
			Software:    cmp.Or(cfg.Software, "https://"+cfg.Service()+"/"),
			Version:     d.version,
			// By it a relay finds out that it has connected to itself.
			Extra: map[string]any{"self": self.String()},
		},
		Limits:  limits,
		Domains: cfg.Domains,
		CORS:    githttp.CORS,

		ChallengeOnConnect: cfg.AuthChallenge == "connect",

		Proxies: cfg.Proxies,
		Next:    next,
		About:   about,
		Log:     d.log,
	}
}

func openDisk(ctx context.Context, cfg *config.Config, db Store, node node, log *moderation.Log) (*repos.Disk, error) {
	o := gitrepo.DefaultOptions
	o.MaxInput = cfg.PackSize
	o.DefaultBranch = cfg.GitBranch
	o.Barred = func() map[string]string { return log.Objects(time.Now().Unix()) }
	o.Pack = gitrepo.PackLimits{
		Objects: cfg.PackObjects, Depth: cfg.PackDepth, Inflated: cfg.PackBytes, Free: gitrepo.DefaultPackLimits.Free, Expansion: cfg.PackTimes,
	}
	schedule := gitrepo.DefaultScheduleOptions
	schedule.Classes[gitrepo.ClassFetch].Slots = orProcessors(cfg.GitFetches, 2)
	schedule.Classes[gitrepo.ClassPush].Slots = orProcessors(cfg.GitPushes, 1)
	scheduler, err := gitrepo.NewScheduler(schedule)
	if err != nil {
		return nil, err
	}
	o.Scheduler = scheduler
	git, err := gitrepo.Find(ctx, cfg.Git, o)
	if err != nil {
		return nil, err
	}
	return repos.OpenDisk(ctx, git, cfg.GitFolder(), cfg.PRs, db, node.openRoot)
}

// openReconciler sets up what keeps repositories and events in line.
func (d *Daemon) openReconciler(ctx context.Context, core *Core, pipeline *retry.Queue) (*repos.Reconciler, error) {
	service, err := grasp.ParseService(d.cfg.Service())
	if err != nil {
		return nil, fmt.Errorf("option domain: %w", err)
	}
	return repos.New(ctx, repos.Config{
		Nodes:    core.node,
		Disk:     core.Disk,
		Service:  service,
		Store:    repos.WithHidden(facts{core.Store}),
		Pipeline: pipeline,
		Policy:   core.Plugins,
		Log:      d.log,
		Now:      time.Now,
		Jobs:     orProcessors(d.cfg.GitPushes, 1),
		Maintain: d.cfg.Maintenance,
		PullRefs: d.cfg.PullRefs,

		Private:    core.private,
		Moderation: core.Moderation,
	})
}

// openGit serves repositories, and pages for whatever else is asked for.
func (d *Daemon) openGit(core *Core, f *repos.Reconciler, pages http.Handler) (*githttp.Handler, error) {
	limits := githttp.DefaultLimits
	limits.PushBytes = d.cfg.PackSize + 8<<20 // the commands come with the pack
	limits.Whole = d.cfg.GitTime
	limits.CPU = d.cfg.GitCPU
	limits.Disk = d.cfg.GitDisk
	return githttp.New(githttp.Config{
		Prefix:    "/",
		Limits:    limits,
		Log:       d.log,
		Scheduler: core.Disk.Announced.Scheduler(),
		Client:    d.client,
		Holder:    core.Users.Holder,
		Panics:    d.git,
		Full:      core.Space.Full,
		IsPath:    repos.IsPath,
		NotFound:  pages,
	}, visibleGit{f, core.Audiences}, f)
}

// orProcessors returns an operator's number, or if it is 0 the given number for each
// processor, but at least four: git waits for disks and clients.
func orProcessors(n, each int) int {
	if n > 0 {
		return n
	}
	return max(4, each*runtime.GOMAXPROCS(0))
}

// openPages makes the pages for people.
func (d *Daemon) openPages(core *Core, repositories *repos.Reconciler, hunter *huntRole) (*web.Handler, error) {
	reader, err := gitread.Open(gitread.Options{
		Scheduler: core.Disk.Announced.Scheduler(), Log: d.log, Panics: d.parts, Archives: filepath.Join(d.cfg.Data, "archives"),
	})
	if err != nil {
		return nil, err
	}
	return web.New(web.Config{
		Name:        d.cfg.Name,
		Description: d.cfg.Description,
		Contact:     d.cfg.Contact,
		Service:     d.cfg.Service(),
		PRs:         d.cfg.PRs,
		NIPs:        relay.NIPs(),
		About:       describe(d.cfg, core.Plugins),
		Hunt:        searchOf(hunter),
		Moderation:  core.Moderation,
		Proxies:     d.cfg.Proxies,
		Client:      func(r *http.Request) bound.Holder { return core.Users.Holder(d.client(r).Addr, provenBy(r)) },
		SignedIn:    signedIn,
		Usage: func(r *http.Request, author host.PubKey, list []host.Address) ([]string, error) {
			if !slices.Contains(provenBy(r), author) {
				return nil, nil
			}
			return repositories.UsageOf(r.Context(), author, list)
		},
		Log: d.log,
	}, web.Deps{Facts: pageFacts{core.Store}, Git: pageGit{repositories, core.Audiences}, Code: reader})
}

// searchOf tells the pages how the hunt goes, if there is one.
func searchOf(hunter *huntRole) func(string) (web.Hunt, bool) {
	if hunter == nil {
		return nil
	}
	return func(identifier string) (web.Hunt, bool) {
		p := hunter.part()
		if p == nil {
			return web.Hunt{}, false
		}
		s, ok := p.Search(identifier)
		return web.Hunt{Missing: s.Missing, Asking: s.Asking, Next: s.Next}, ok
	}
}

// client says who sent a request.
func (d *Daemon) client(r *http.Request) host.Client {
	return host.Client{
		Addr:      relay.ClientAddr(r, d.cfg.Proxies),
		UserAgent: r.UserAgent(),
		Origin:    r.Header.Get("Origin"),
		Path:      r.URL.Path,
	}
}

// subscriptionValues returns how many values the subscriptions of one connection may have, and
// those of all. The operator chooses the first. Otherwise a quarter of the memory holds all.
func subscriptionValues(cfg *config.Config) (one, all int) {
	if n := cfg.SubscriptionValues; n > 0 {
		return n, 8 * n
	}
	all = min(relay.DefaultLimits.ValuesTotal, int(memoryOf(cfg)/4/relay.ValueBytes))
	return min(relay.DefaultLimits.Values, all/8), all
}
