package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"talon/host"
)

// Operations of honest people.
const (
	opConnect  = "connect"
	opPublish  = "publish"
	opREQ      = "REQ"
	opNEG      = "NEG"
	opPage     = "page"
	opLsRemote = "ls-remote"
	opClone    = "clone"
	opPush     = "push"
)

// operations lists them in the order of the report.
var operations = []string{opConnect, opPublish, opREQ, opNEG, opPage, opLsRemote, opClone, opPush}

func isGit(op string) bool { return op == opLsRemote || op == opClone || op == opPush }

const (
	patience = 20 * time.Second // an honest person waits so long for one operation

	socketPause = 150 * time.Millisecond // between two rounds of websockets and pages
	gitPause    = 400 * time.Millisecond

	project = "project" // the maintainer's repository

	maintainerName = "maintainer"
)

// bystanders are the honest people:
//   - A maintainer has a repository, and comes from a network where nobody saw them before. They
//     prove their key.
//   - A visitor reads, and writes issues.
//   - A newcomer from a /24 of their own announces a repository and pushes to it. Each round
//     plays another newcomer.
type bystanders struct {
	t          *Target
	dir        string
	maintainer *person
	visitor    *person
	commits    []string
	states     []*host.Event // of the commits
	issues     [2]chan *host.Event
	newcomers  []newcomer
	next       struct{ commit, newcomer int }
	until      time.Time // nothing begins after this
	patience   time.Duration
	client     [3]*http.Client // of the maintainer, the visitor, the newcomers
}

type newcomer struct {
	*person
	address  string
	name     string
	announce *host.Event
	state    *host.Event
}

const (
	maintainerHome    = "203.0.113.7" // the network of the maintainer's first push
	maintainerNetwork = "203.0.114.7" // where they are now
	visitorNetwork    = "198.51.100.7"
)

// newBystanders makes the maintainer's repository on the target, and signs the events of two
// phases of a length.
func newBystanders(ctx context.Context, t *Target, dir string, phase time.Duration) (*bystanders, error) {
	b := &bystanders{t: t, dir: dir, maintainer: newPerson(maintainerName), visitor: newPerson("visitor"), patience: patience}
	pushes := int(2*phase/gitPause) + 10
	var err error
	if b.commits, err = makeRepository(ctx, b.local(), pushes, nil); err != nil {
		return nil, err
	}
	if err := t.found(ctx, b.maintainer, project, maintainerHome, b.local(), b.commits[0]); err != nil {
		return nil, err
	}
	for i, c := range b.commits {
		b.states = append(b.states, b.maintainer.state(project, c, int64(7100-i)))
	}
	for i, p := range []*person{b.maintainer, b.visitor} {
		n := int(2*phase/socketPause) + 10
		b.issues[i] = make(chan *host.Event, n)
		for k := range n {
			b.issues[i] <- p.issue(b.maintainer.address(project), int64(7000-k), fmt.Sprintf("It happens each time, for the time of number %d.", k))
		}
	}
	for i := range min(pushes, 256) {
		p := newPerson(fmt.Sprint("newcomer ", i))
		name := fmt.Sprint("first-", i)
		b.newcomers = append(b.newcomers, newcomer{p, fmt.Sprintf("198.19.%d.7", i), name,
			p.announce(t, name, int64(6000-i)), p.state(name, b.commits[0], int64(6000-i))})
	}
	b.next.commit = 1
	for i := range b.client {
		b.client[i] = &http.Client{Transport: &http.Transport{}}
	}
	t.Repo = b.maintainer.repo(project).Path()
	return b, nil
}

func (b *bystanders) local() string { return filepath.Join(b.dir, "project.git") }

// run lets all of them work for a time, and returns what they met.
func (b *bystanders) run(ctx context.Context, phase time.Duration) *Samples {
	s := newSamples()
	b.until = time.Now().Add(phase)
	var wg sync.WaitGroup
	loop := func(pace time.Duration, round func(context.Context) bool) {
		wg.Go(func() {
			for time.Now().Before(b.until) && ctx.Err() == nil && round(ctx) {
				pause(ctx, pace)
			}
		})
	}
	loop(socketPause, func(ctx context.Context) bool { return b.talk(ctx, s, 0, b.maintainer, maintainerNetwork, true) })
	loop(socketPause, func(ctx context.Context) bool { return b.talk(ctx, s, 1, b.visitor, visitorNetwork, false) })
	loop(gitPause, func(ctx context.Context) bool { return b.maintain(ctx, s) })
	loop(gitPause, func(ctx context.Context) bool { return b.read(ctx, s) })
	loop(gitPause, func(ctx context.Context) bool { return b.begin(ctx, s) })
	wg.Wait()
	return s
}

// errOver says that the phase is over: nothing more begins in it.
var errOver = errors.New("the phase is over")

// measured runs an operation with a person's patience.
func (b *bystanders) measured(ctx context.Context, s *Samples, op string, f func(context.Context) error) error {
	if time.Now().After(b.until) {
		return errOver
	}
	bounded, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	began := time.Now()
	err := f(bounded)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && bounded.Err() != nil && !isRefusal(err) {
		err = fmt.Errorf("no answer within %v: %w", b.patience, err)
	}
	s.add(op, time.Since(began), err)
	return err
}

// connected opens a websocket, proves the key if there is one, and passes the session on.
func (b *bystanders) connected(ctx context.Context, s *Samples, address string, prove *person, f func(*session)) {
	ctx, cancel := context.WithTimeout(ctx, 4*b.patience)
	defer cancel()
	var c *session
	err := b.measured(ctx, s, opConnect, func(bounded context.Context) (err error) {
		if c, err = b.t.open(ctx, address); err != nil {
			return err
		}
		stop := context.AfterFunc(bounded, func() { _ = c.socket.Close() })
		defer stop()
		if prove != nil {
			return c.auth(b.t, prove)
		}
		return nil
	})
	if c != nil {
		defer c.close()
	}
	if err == nil {
		f(c)
	}
}

// during runs an operation of a session, which ends with the operation's context.
func (b *bystanders) during(ctx context.Context, s *Samples, c *session, op string, f func() error) error {
	return b.measured(ctx, s, op, func(bounded context.Context) error {
		stop := context.AfterFunc(bounded, func() { _ = c.socket.Close() })
		defer stop()
		return f()
	})
}

// talk connects, publishes an issue, asks, compares by negentropy, and opens a page.
func (b *bystanders) talk(ctx context.Context, s *Samples, who int, p *person, address string, prove bool) bool {
	var e *host.Event
	select {
	case e = <-b.issues[who]:
	default:
		return false
	}
	key := p
	if !prove {
		key = nil
	}
	b.connected(ctx, s, address, key, func(c *session) {
		if b.during(ctx, s, c, opPublish, func() error { return c.publish(e) }) == nil {
			// Not all issues: those of attackers are longer, and the answers would not compare.
			_ = b.during(ctx, s, c, opREQ, func() error {
				return c.req(`{"kinds":[1621],"#a":["` + b.maintainer.address(project) + `"],"limit":50}`)
			})
			_ = b.during(ctx, s, c, opNEG, func() error { return c.compare(`{"kinds":[30617]}`) })
		}
	})
	b.page(ctx, s, who, address)
	return true
}

func (b *bystanders) page(ctx context.Context, s *Samples, who int, address string) {
	_ = b.measured(ctx, s, opPage, func(ctx context.Context) error {
		status, _, err := get(ctx, b.client[who], b.t.url(b.maintainer.repo(project).Path()[:len(b.maintainer.repo(project).Path())-len(".git")]), address)
		if err == nil && status != http.StatusOK {
			err = refusal{fmt.Sprintf("HTTP status %d", status)}
		}
		return err
	})
}

// maintain publishes the next state and pushes its commit.
func (b *bystanders) maintain(ctx context.Context, s *Samples) bool {
	if b.next.commit == len(b.commits) {
		return false
	}
	i := b.next.commit
	b.next.commit++
	said := errors.New("the state was not published")
	b.connected(ctx, s, maintainerNetwork, b.maintainer, func(c *session) {
		said = b.during(ctx, s, c, opPublish, func() error { return c.publish(b.states[i]) })
	})
	if said == nil {
		url := b.t.url(b.maintainer.repo(project).Path())
		_ = b.measured(ctx, s, opPush, func(ctx context.Context) error { return push(ctx, b.local(), url, maintainerNetwork, b.commits[i]) })
	}
	return true
}

// read lists the refs of the maintainer's repository, and clones it.
func (b *bystanders) read(ctx context.Context, s *Samples) bool {
	url := b.t.url(b.maintainer.repo(project).Path())
	_ = b.measured(ctx, s, opLsRemote, func(ctx context.Context) error { return lsRemote(ctx, b.dir, url, visitorNetwork) })
	_ = b.measured(ctx, s, opClone, func(ctx context.Context) error { return clone(ctx, b.dir, url, visitorNetwork) })
	return true
}

// begin plays the next newcomer.
func (b *bystanders) begin(ctx context.Context, s *Samples) bool {
	if b.next.newcomer == len(b.newcomers) {
		return false
	}
	n := &b.newcomers[b.next.newcomer]
	b.next.newcomer++
	var announced error = errors.New("the announcement was not published")
	b.connected(ctx, s, n.address, nil, func(c *session) {
		if announced = b.during(ctx, s, c, opPublish, func() error { return c.publish(n.announce) }); announced == nil {
			announced = b.during(ctx, s, c, opPublish, func() error { return c.publish(n.state) })
		}
		if announced == nil {
			_ = b.during(ctx, s, c, opREQ, func() error { return c.req(`{"kinds":[30617],"authors":["` + n.key.String() + `"]}`) })
		}
	})
	if announced != nil {
		return true
	}
	url := b.t.url(n.repo(n.name).Path())
	_ = b.measured(ctx, s, opLsRemote, func(ctx context.Context) error { return lsRemote(ctx, b.dir, url, n.address) })
	if b.measured(ctx, s, opPush, func(ctx context.Context) error { return push(ctx, b.local(), url, n.address, b.commits[0]) }) == nil {
		_ = b.measured(ctx, s, opClone, func(ctx context.Context) error { return clone(ctx, b.dir, url, n.address) })
	}
	b.page(ctx, s, 2, n.address)
	return true
}
