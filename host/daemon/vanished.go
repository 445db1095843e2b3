package daemon

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/config"
	"talon/host/moderation"
	"talon/host/schnorr"
)

// loadVanished adds the requests to vanish of the copy outside the database to the database. So a
// restored database obeys requests that are newer than its backup.
func (c *Core) loadVanished(data string) error {
	file, copied, damaged, err := moderation.OpenVanishedFile(filepath.Join(data, moderation.VanishedFileName), schnorr.Verify)
	if err != nil {
		return err
	}
	if damaged > 0 {
		c.log.Warn("lines of the copy of the requests to vanish cannot be read", "lines", damaged)
	}
	c.vanished = file
	if len(copied) == 0 {
		return nil
	}
	tx, err := c.Store.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	added := 0
	for i := range copied {
		out, err := tx.Vanish(&copied[i])
		if err != nil {
			return fmt.Errorf("merge the requests to vanish: %w", err)
		}
		if out.Code == host.Stored {
			added++
		}
	}
	if added == 0 {
		return nil
	}
	c.log.Warn("the database lacked requests to vanish: it was restored, and has them now", "requests", added)
	return tx.Commit()
}

const (
	// copyVanishedEvery is how often requests that came on other nodes are copied.
	copyVanishedEvery = time.Minute

	vanishedAtOnce = 500 // requests that are read in one step
)

// copyVanished appends requests to vanish to the copy outside the database as they come, until ctx
// ends.
func (c *Core) copyVanished(ctx context.Context) error {
	tick := time.NewTicker(copyVanishedEvery)
	defer tick.Stop()
	for after := int64(0); ; {
		changed := c.Pipeline.Vanished()
		for {
			list, err := c.Store.VanishedAfter(ctx, after, vanishedAtOnce)
			if err == nil {
				err = c.vanished.Append(list)
			}
			if err != nil && ctx.Err() == nil { // the requests come again with the next one
				c.log.Error("keep the copy of the requests to vanish", "err", err)
			}
			if err != nil || len(list) == 0 {
				break
			}
			after = list[len(list)-1].Number
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// namesRelay returns a function that reports whether a URL names this relay.
func namesRelay(cfg *config.Config) func(text string) bool {
	names := cfg.Names()
	for i, name := range names {
		names[i] = hostOf(name)
	}
	return func(text string) bool {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" || u.User != nil {
			return false
		}
		if s := strings.ToLower(u.Scheme); s != "ws" && s != "wss" && s != "http" && s != "https" {
			return false
		}
		return slices.Contains(names, hostOf(u.Host))
	}
}

// hostOf normalises host[:port].
func hostOf(hostPort string) string {
	s := strings.ToLower(hostPort)
	for _, port := range []string{":80", ":443", ":"} {
		s = strings.TrimSuffix(s, port)
	}
	return strings.TrimSuffix(s, ".")
}
