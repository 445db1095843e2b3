package web

import (
	"net/http"
	"sync"
	"time"
)

const (
	// keepFor is how long a page may be shown again.
	keepFor = 5 * time.Second

	// maxKept bounds the pages that are kept, and maxKeptBytes their bytes.
	maxKept      = 512
	maxKeptBytes = 16 << 20
)

// cache keeps pages for some seconds, each with what it was made from. It does not decide
// whether a page is still true: see [sources.unchanged].
type cache struct {
	mu    sync.Mutex // guards the fields below
	pages map[string]*kept
	bytes int
}

// kept is a page that was made. It does not change.
type kept struct {
	key     string
	made    time.Time
	kind    string // the content type, "" for HTML
	body    []byte
	etag    string
	sources *sources
}

func (p *kept) reply() *reply {
	return &reply{status: http.StatusOK, kind: p.kind, body: p.body, etag: p.etag}
}

func newCache() *cache { return &cache{pages: make(map[string]*kept)} }

// get returns a page that is young enough, nil if there is none.
func (c *cache) get(key string, now time.Time) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pages[key]
	if p == nil {
		return nil
	}
	if age := now.Sub(p.made); age < 0 || age >= keepFor {
		c.dropLocked(p)
		return nil
	}
	return p
}

// put keeps a page, and drops the oldest ones if there are too many.
func (c *cache) put(p *kept) {
	if len(p.body) > maxKeptBytes/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.pages[p.key]; old != nil {
		c.dropLocked(old)
	}
	c.pages[p.key] = p
	c.bytes += len(p.body)
	for len(c.pages) > maxKept || c.bytes > maxKeptBytes {
		oldest := p
		for _, other := range c.pages {
			if other.made.Before(oldest.made) {
				oldest = other
			}
		}
		c.dropLocked(oldest)
	}
}

// drop forgets a page.
func (c *cache) drop(p *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(p)
}

// dropLocked is drop. REQUIRES: mu.
func (c *cache) dropLocked(p *kept) {
	if c.pages[p.key] == p {
		delete(c.pages, p.key)
		c.bytes -= len(p.body)
	}
}
