package relaysync_test

import (
	"context"
	"sync"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync"
	"talon/host/schnorr"
)

// matrixStore is what is stored here: announcements that list us, and what is about
// something that is here.
type matrixStore struct {
	queue chan *host.Item
	done  chan struct{}

	mu    sync.Mutex // guards the fields below
	store *relaymodel.Store
	named map[string]bool // ids and addresses of what is here
	sync  *relaysync.Sync
	seq   int64
	came  map[host.ID]time.Time // when each event was stored
}

func newMatrixStore() *matrixStore {
	s := &matrixStore{queue: make(chan *host.Item, 64), done: make(chan struct{}), store: relaymodel.NewStore(), named: map[string]bool{}, came: map[host.ID]time.Time{}}
	go func() {
		defer close(s.done)
		for it := range s.queue {
			it.Done(s.decide(it.Event), nil)
		}
	}()
	return s
}

func (s *matrixStore) close() {
	close(s.queue)
	<-s.done
}

func (s *matrixStore) follow(to *relaysync.Sync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync = to
}

func (s *matrixStore) Submit(ctx context.Context, it *host.Item) error {
	select {
	case s.queue <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *matrixStore) decide(e *host.Event) host.Verdict {
	s.mu.Lock()
	v := s.verdict(e)
	to, seq := s.sync, s.seq
	s.mu.Unlock()
	if to != nil && v.Code == host.Stored {
		to.Publish([]host.Published{{Event: e, Seq: seq}})
	}
	return v
}

func (s *matrixStore) verdict(e *host.Event) host.Verdict {
	if s.store.Newer(e) != nil {
		return host.Verdict{Code: host.Duplicate}
	}
	if schnorr.Verify(e) != nil {
		return host.Verdict{Code: host.Rejected, Reason: "invalid: forged"}
	}
	ok := false
	for _, tag := range e.Tags {
		for _, value := range tag[min(1, len(tag)):] {
			ok = ok || s.named[value] || e.Kind == 30617 && value == "wss://"+ownDomain
		}
	}
	if !ok {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}
	}
	s.store.Put(e)
	s.seq++
	s.came[e.ID] = time.Now()
	s.named[e.ID.String()] = true
	if a, ok := e.Address(); ok {
		s.named[a.String()] = true
	}
	return host.Verdict{Code: host.Stored}
}

func (s *matrixStore) Get(_ context.Context, id host.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.store.Get(id); e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

func (s *matrixStore) Query(_ context.Context, f host.Filter) (texts [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.store.Query(&f) {
		texts = append(texts, e.JSON)
	}
	return texts, nil
}

func (s *matrixStore) Referenced(context.Context, string) (bool, error) { return false, nil }

func (s *matrixStore) Held(context.Context, host.ID) ([]byte, error) { return nil, nil }

func (s *matrixStore) HeldBy(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

func (s *matrixStore) Scan(_ context.Context, f host.Filter, most int, _ int64, yield func(int64, host.ID)) (int64, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.store.Query(&f)
	list = list[:min(len(list), most)]
	for _, e := range list {
		yield(e.CreatedAt, e.ID)
	}
	return s.seq, len(list), nil
}

func (s *matrixStore) Missing(_ context.Context, ids []host.ID) (missing []host.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.store.Get(id) == nil {
			missing = append(missing, id)
		}
	}
	return missing, nil
}
