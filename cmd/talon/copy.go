package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/ingest"
	"talon/host/moderation"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// copyEvents is how many events one transaction copies.
const copyEvents = 256

func copyCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "copy --to STORE",
		Short: "Copy the database to another folder or to PostgreSQL, and compare",
		Long: `Copy all that the database has to another one: events, what waits for git data, the moderation log and
requests to vanish, what plugins remember, and what is known of
relays and git servers. STORE is postgres://USER@HOST/DATABASE, a file that has such a line, or a data folder. Repositories are not copied.

The server may run meanwhile on the database that is read, not on the other. What is there already is not copied again: copy once while
the server runs, and once more, briefly, when it has stopped. At last every event is compared; the exit code is 1 if one differs.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&to, "to", "", "`store` to copy to")
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		return copyStore(cmd, cfg, log, to)
	})
}

func copyStore(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, to string) (err error) {
	target, err := copyTarget(cfg, to)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	source, err := daemon.OpenStoreReadOnly(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	db, err := daemon.OpenStore(ctx, target, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &copier{from: source, to: db, progress: newProgress(cmd.ErrOrStderr())}
	err = c.run(ctx)
	c.progress.end()
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d events copied, %d were there; %d held, %d placeholders, %d entries of plugins, %d of servers\n",
		c.copied, c.there, c.held, c.placeholders, c.state, c.servers)
	if c.barred > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%d events not copied, since the moderation log bars them\n", c.barred)
	}
	differ, same, err := c.compare(ctx)
	c.progress.end()
	if err != nil {
		return fmt.Errorf("compare the databases: %w", err)
	}
	if differ > 0 {
		return fmt.Errorf("%d events are the same, %d differ: stop the server and copy again", same, differ)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "all %d events are the same\n", same)
	return nil
}

// copyTarget returns the settings of the store that is copied to.
func copyTarget(cfg *config.Config, to string) (*config.Config, error) {
	if to == "" {
		return nil, errors.New("option to is missing: it names the store to copy to")
	}
	target := *cfg
	target.Store = to
	if info, err := os.Stat(to); err == nil && info.IsDir() || err != nil && !strings.Contains(to, "://") {
		target.Store, target.Data = "", to
	}
	url, err := target.Postgres()
	if err != nil {
		return nil, err
	}
	before, err := cfg.Postgres()
	if err != nil {
		return nil, err
	}
	if url == before && (url != "" || sameFolder(cfg.Data, target.Data)) {
		return nil, errors.New("the value of option to is wrong: it is the store that is copied")
	}
	return &target, nil
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	y, also := os.Stat(b)
	return err == nil && also == nil && os.SameFile(x, y)
}

// copier is one run of talon copy.
type copier struct {
	from, to daemon.Store
	progress *progress
	log      moderation.Log // of both: what it bars stays away from the target

	barred, copied, there, held, placeholders, state, servers int
}

func (c *copier) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.mergeLogs, c.vanished, c.events, c.purgatory, c.hidden, c.refs, c.plugins, c.relays} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// events copies them oldest first, as they were stored: tombstones follow from deletions.
func (c *copier) events(ctx context.Context) error {
	all, err := c.from.Count(ctx, []host.Filter{{Limit: -1, Reader: host.Everything}}, 0)
	if err != nil {
		return err
	}
	withheld := make(map[host.ID]*host.Audience)
	err = c.from.Withheld(ctx, func(id host.ID, a *host.Audience) error {
		withheld[id] = a
		return nil
	})
	if err != nil {
		return err
	}
	var part []*host.Event
	flush := func() error {
		ids := make([]host.ID, len(part))
		for i, e := range part {
			ids[i] = e.ID
		}
		missing, err := c.to.Missing(ctx, ids)
		if err != nil {
			return err
		}
		c.there += len(part) - len(missing)
		err = c.change(part, missing)
		part = part[:0]
		c.progress.show(func() string { return fmt.Sprintf("%d of %d events", c.there+c.copied, all) })
		return err
	}
	err = c.from.Export(ctx, func(json []byte) error {
		e, err := wire.ParseEvent(bytes.Clone(json))
		if err != nil {
			return fmt.Errorf("an event cannot be read: %w: run `talon check`", err)
		}
		if part = append(part, e.For(withheld[e.ID])); len(part) < copyEvents {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return err
}

// change stores those of the events whose ids are missing, in one transaction.
func (c *copier) change(events []*host.Event, missing []host.ID) error {
	if len(missing) == 0 {
		return nil
	}
	wanted := make(map[host.ID]bool, len(missing))
	for _, id := range missing {
		wanted[id] = true
	}
	tx, err := c.to.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, e := range events {
		if !wanted[e.ID] || c.bars(e) {
			continue
		}
		// Expired events are copied as well: the server that opens the copy sweeps them.
		if _, err := tx.Put(e, 0); err != nil {
			return err
		}
		c.copied++
	}
	return tx.Commit()
}

// purgatory copies the events that wait, with the time since when they do. An event that a module
// holds keeps the end that the module chose. Dormant events become dormant again with the next sweep.
func (c *copier) purgatory(ctx context.Context) error {
	return c.from.EachHeld(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(bytes.Clone(h.JSON))
		if err != nil {
			return fmt.Errorf("an event in purgatory cannot be read: %w: run `talon check`", err)
		}
		e.Audience = h.Audience
		if c.bars(e) {
			return nil
		}
		tx, err := c.to.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		c.held++
		if _, err := tx.Hold(e, host.HoldOptions{Reason: host.ReasonHeld, Synced: true, Wake: h.Wake, Wait: h.Due - h.Since}, h.Since); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// mergeLogs adds the moderation log to that of the target. The server that opens the target carries
// the new rows out.
func (c *copier) mergeLogs(ctx context.Context) error {
	rows, err := c.from.Moderation(ctx, 0)
	if err != nil {
		return err
	}
	err = c.commit(func(tx ingest.Tx) error {
		_, err := tx.AddModeration(rows, time.Now().Unix())
		return err
	})
	if err == nil {
		rows, err = c.to.Moderation(ctx, 0)
	}
	c.log.Apply(rows)
	return err
}

// bars reports whether the moderation log keeps an event away from the target, and counts it.
func (c *copier) bars(e *host.Event) bool {
	if c.log.Event(e, time.Now().Unix()) == nil {
		return false
	}
	c.barred++
	return true
}

// hidden copies what the moderation log has hidden, and the ids of what it has removed.
func (c *copier) hidden(ctx context.Context) error {
	for last := int64(0); ; {
		list, err := c.from.HiddenAfter(ctx, last, copyEvents)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		last = list[len(list)-1].Seq
		err = c.commit(func(tx ingest.Tx) error {
			var down host.Takedown
			for _, h := range list {
				e, err := wire.ParseEvent(h.JSON)
				if err != nil {
					return fmt.Errorf("a hidden event cannot be read: %w: run `talon check`", err)
				}
				if r := c.log.Event(e, time.Now().Unix()); r != nil && r.Action == moderation.Purge {
					c.barred++
					continue
				}
				if _, err := tx.Put(e, 0); err != nil {
					return err
				}
				down.Hide = append(down.Hide, e.ID)
			}
			_, err := tx.TakeDown(down, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	var gone []host.ID
	if err := c.from.Refused(ctx, func(one semantics.RefusedID) { gone = append(gone, one.ID) }); err != nil {
		return err
	}
	for part := range slices.Chunk(gone, copyEvents) {
		err := c.commit(func(tx ingest.Tx) error {
			_, err := tx.TakeDown(host.Takedown{Purge: part}, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// vanished copies the requests to vanish. The events that they concern are gone here.
func (c *copier) vanished(ctx context.Context) error {
	for last := int64(0); ; {
		list, err := c.from.VanishedAfter(ctx, last, copyEvents)
		if err != nil || len(list) == 0 {
			return err
		}
		last = list[len(list)-1].Number
		err = c.commit(func(tx ingest.Tx) error {
			for i := range list {
				if _, err := tx.Vanish(&list[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// commit makes one transaction of what change does.
func (c *copier) commit(change func(tx ingest.Tx) error) error {
	tx, err := c.to.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (c *copier) refs(ctx context.Context) error {
	type placeholder struct {
		repo string
		id   host.ID
	}
	here := make(map[placeholder]bool)
	err := c.from.Placeholders(ctx, func(repo string, id host.ID, since int64) error {
		here[placeholder{repo, id}] = true
		c.placeholders++
		return c.to.AddPlaceholder(ctx, repo, id, since)
	})
	if err != nil {
		return err
	}
	return c.to.Placeholders(ctx, func(repo string, id host.ID, _ int64) error {
		if here[placeholder{repo, id}] {
			return nil
		}
		return c.to.DropPlaceholder(ctx, repo, id)
	})
}

func (c *copier) plugins(ctx context.Context) error {
	type name struct {
		module string
		space  byte
		key    string
	}
	here := make(map[name]bool)
	var entries []host.StateEntry
	err := c.from.LoadState(ctx, func(e host.StateEntry) error {
		here[name{e.Module, e.Space, e.Key}] = true
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return err
	}
	c.state = len(entries)
	err = c.to.LoadState(ctx, func(e host.StateEntry) error {
		if !here[name{e.Module, e.Space, e.Key}] {
			e.Value = nil
			entries = append(entries, e)
		}
		return nil
	})
	for err == nil && len(entries) > 0 {
		n := min(len(entries), copyEvents)
		err = c.to.SaveState(ctx, entries[:n])
		entries = entries[n:]
	}
	return err
}

func (c *copier) relays(ctx context.Context) error {
	for _, about := range daemon.Knowledge {
		known, err := c.from.Relays(ctx, about)
		if err != nil {
			return err
		}
		c.servers += len(known)
		there, err := c.to.Relays(ctx, about)
		if err != nil {
			return err
		}
		for url := range there {
			if _, ok := known[url]; !ok {
				known[url] = nil
			}
		}
		if err := c.to.SaveRelays(ctx, about, known); err != nil {
			return err
		}
	}
	return nil
}

// compare goes through both databases side by side and returns how many events only one of
// them has, or with another text, and how many are the same. Those that have expired, or that the
// moderation log bars, do not count: one may have removed them.
func (c *copier) compare(ctx context.Context) (differ, same int, err error) {
	now := time.Now().Unix()
	a, stopA := iter.Pull2(c.exported(ctx, c.from, now))
	defer stopA()
	b, stopB := iter.Pull2(c.exported(ctx, c.to, now))
	defer stopB()
	next := func(pull func() (*host.Event, error, bool)) (*host.Event, error) {
		e, err, _ := pull()
		return e, err
	}
	x, errA := next(a)
	y, errB := next(b)
	for errA == nil && errB == nil && (x != nil || y != nil) {
		switch {
		case x != nil && y != nil && x.ID == y.ID:
			if bytes.Equal(x.JSON, y.JSON) {
				same++
			} else {
				differ++
			}
			x, errA = next(a)
			y, errB = next(b)
		case y == nil || x != nil && y.Before(x): // the oldest comes first
			differ++
			x, errA = next(a)
		default:
			differ++
			y, errB = next(b)
		}
		c.progress.show(func() string { return fmt.Sprintf("%d events compared", same+differ) })
	}
	return differ, same, errors.Join(errA, errB)
}

// exported yields the events of a store, oldest first, but for those that have expired or are barred.
func (c *copier) exported(ctx context.Context, s daemon.Store, now int64) iter.Seq2[*host.Event, error] {
	return func(yield func(*host.Event, error) bool) {
		enough := errors.New("enough")
		err := s.Export(ctx, func(json []byte) error {
			e, err := wire.ParseEvent(bytes.Clone(json))
			if err != nil {
				return err
			}
			if at, ok := e.Expiration(); ok && at <= now || c.log.Event(e, now) != nil || yield(e, nil) {
				return nil
			}
			return enough
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	}
}
