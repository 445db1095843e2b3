package world

import (
	"fmt"
	"maps"
	"slices"

	"talon/cmd/internal/lab/scenario"
)

// GitServer is a git server that is not a Talon.
type GitServer struct {
	scenario.Git
	Number  int
	Name    string // such as forge-1
	Class   string
	Domain  string
	URL     string  // below which its repositories are
	Latency float64 // milliseconds one way
	Away    []Away
}

// Data is the git data of an event.
type Data struct {
	Number  int // of the state, or of the pull request, in its repository
	Bytes   int64
	At      int64 // when it is pushed
	Servers []int // that it is pushed to, honest ones; none: nobody pushes it
	Direct  bool  // it is pushed to the Talons that are listed, too
}

// drawGit makes the git servers, class by class.
func (w *World) drawGit() {
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Git)) {
		c := w.Scenario.Git[class]
		r := newStream(w.Seed, "git "+class)
		for i := range c.Count {
			name := fmt.Sprintf("%s-%d", class, i)
			w.Git = append(w.Git, &GitServer{
				Git: c, Number: len(w.Git), Name: name, Class: class, Domain: name + ".example", URL: "https://" + name + ".example", Latency: max(0.5, r.logNormal(c.LatencyMS, c.Spread)),
			})
		}
	}
}

// gitPublisher draws which git servers repositories name, and what is pushed to them.
type gitPublisher struct {
	stream
	servers weighted
	numbers []int // by index in servers
}

func (w *World) newGitPublisher() *gitPublisher {
	if len(w.Git) == 0 {
		return nil
	}
	p := &gitPublisher{stream: newStream(w.Seed, "git data")}
	for _, g := range w.Git {
		if g.Weight > 0 {
			p.servers.add(g.Weight)
			p.numbers = append(p.numbers, g.Number)
		}
	}
	return p
}

// drawGitServers draws the git servers that a repository names, one that is honest among
// them.
func (p *publisher) drawGitServers() (servers []int) {
	s := &p.Scenario.Repositories
	n := p.git.between(s.GitMin, s.GitMax)
	for tries := 0; len(servers) < n; tries++ {
		g := p.git.numbers[p.git.servers.draw(p.git.stream)]
		lying := func(g int) bool { return p.Git[g].Lying }
		last := len(servers) == n-1 && lying(g) && !slices.ContainsFunc(servers, func(o int) bool { return !lying(o) })
		switch {
		case tries >= 10_000: // weights leave hardly a choice
			for _, g := range p.git.numbers {
				if !slices.Contains(servers, g) && !lying(g) {
					servers = append(servers, g)
					break
				}
			}
			return servers
		case !slices.Contains(servers, g) && !last:
			servers = append(servers, g)
		}
	}
	return servers
}

// drawPull draws the git data of a pull request: its author pushes it to one server.
func (p *publisher) drawPull(repo *Repo, at int64) *Data {
	d := &Data{
		Number: repo.pulls,
		Bytes:  max(200, int64(p.git.logNormal(float64(p.Scenario.Repositories.GitBytes), p.Scenario.Repositories.GitSigma))),
		At:     at + int64(p.git.exponential(float64(p.Scenario.Publishers.PushAfter.Milliseconds()))),
	}
	if i := p.firstHonest(repo); i >= 0 {
		d.Servers = []int{repo.Git[i]}
	}
	return d
}

// drawData draws the git data of a state.
func (p *publisher) drawData(repo *Repo, at int64) *Data {
	r, s := p.git, &p.Scenario.Publishers
	d := &Data{
		Number: repo.states,
		Bytes:  max(200, int64(r.logNormal(float64(p.Scenario.Repositories.GitBytes), p.Scenario.Repositories.GitSigma))),
		At:     at + int64(r.exponential(float64(s.PushAfter.Milliseconds()))),
	}
	unpushed := r.chance(s.Unpushed) && at >= 0
	for i, g := range repo.Git {
		reached := r.chance(s.Mirrored)
		if !p.Git[g].Lying && !unpushed && (reached || i == p.firstHonest(repo)) {
			d.Servers = append(d.Servers, g)
		}
	}
	return d
}

func (p *publisher) firstHonest(repo *Repo) int {
	return slices.IndexFunc(repo.Git, func(g int) bool { return !p.Git[g].Lying })
}
