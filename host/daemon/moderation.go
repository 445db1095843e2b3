package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"talon/host"
	"talon/host/admin"
	"talon/host/backup"
	"talon/host/config"
	"talon/host/ingest"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/host/moderation/reports"
	"talon/host/repos"
)

// loadModeration reads the moderation log, and brings the database and the copy outside it in
// line: each gets the rows that only the other has. So a restored database obeys takedowns that
// are newer than its backup.
func (c *Core) loadModeration(ctx context.Context, data string) error {
	file, copied, damaged, err := moderation.OpenFile(filepath.Join(data, moderation.FileName))
	if err != nil {
		return err
	}
	if damaged > 0 {
		c.log.Warn("lines of the copy of the moderation log cannot be read", "lines", damaged)
	}
	rows, err := c.Store.Moderation(ctx, 0)
	if err != nil {
		return fmt.Errorf("load the moderation log: %w", err)
	}
	c.Moderation.Apply(rows)
	c.copied = file
	if missing := moderation.Missing(copied, rows); len(missing) > 0 {
		added, err := c.mergeModeration(missing)
		if err != nil {
			return err
		}
		c.log.Warn("the database lacked rows of the moderation log: it was restored, and has them now", "rows", len(added))
		c.Moderation.Apply(added)
	}
	return file.Append(c.Moderation.Rows(0))
}

// mergeModeration adds rows to the log of a database on which no pipeline runs.
func (c *Core) mergeModeration(list []moderation.Row) (added []moderation.Row, err error) {
	tx, err := c.Store.Begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if added, err = tx.AddModeration(list, time.Now().Unix()); err != nil {
		return nil, err
	}
	return added, tx.Commit()
}

// copyModeration appends rows to the copy outside the database as they come, until ctx ends.
func (c *Core) copyModeration(ctx context.Context) error {
	for after := int64(0); ; {
		changed := c.Moderation.Changed()
		list := c.Moderation.Rows(after)
		switch err := c.copied.Append(list); {
		case err != nil: // the rows come again with the next one, and at the next start
			c.log.Error("keep the copy of the moderation log", "err", err)
		case len(list) > 0:
			after = list[len(list)-1].Number
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// newEnforcer returns what carries out the moderation log.
func (c *Core) newEnforcer(purged func(ctx context.Context, repo host.Address) error) *enforce.Enforcer {
	var delay time.Duration
	if c.node.Others() {
		delay = enforce.NodeDelay
	}
	return enforce.New(enforce.Config{
		Log: c.Moderation, Store: c.Store, Pipeline: c.Pipeline, Logger: c.log, Now: time.Now, Delay: delay, Purged: purged,
		Lifted: c.noteLifted,
	})
}

// noteLifted tells sync that the log bars less than before.
func (c *Core) noteLifted() {
	select {
	case c.lifted <- struct{}{}:
	default: // sync has not read the last one yet
	}
}

// moderator is the moderation log as the operator's socket has it.
type moderator struct {
	*enforce.Enforcer
	log *moderation.Log
	db  Store

	trusted []host.PubKey // whose reports fill the queue
	disk    *repos.Disk   // nil unless the server runs
	data    string        // folder that has the list of backups
}

func (c *Core) newModerator(cfg *config.Config, e *enforce.Enforcer) moderator {
	return moderator{e, c.Moderation, c.Store, trustedReporters(cfg), c.Disk, cfg.Data}
}

// further notes what the rows do not change: repositories that reach a git object, and backups that
// may have what the rows remove.
func (m moderator) further(ctx context.Context, out *admin.Moderated) error {
	purges := false
	for i := range out.Rows {
		r := &out.Rows[i]
		purge := r.Action == moderation.Purge
		purges = purges || purge
		if r.Target.Class() != moderation.Object || m.disk == nil || r.Action == moderation.Unban || r.Action == moderation.Unhide {
			continue
		}
		list, err := m.disk.Reaching(ctx, r.Target.Object(), purge && !out.DryRun)
		if err != nil {
			return err
		}
		out.Reaching = append(out.Reaching, list...)
	}
	slices.Sort(out.Reaching)
	out.Reaching = slices.Compact(out.Reaching)
	if !purges {
		return nil
	}
	history, err := backup.OpenHistory(m.data)
	if err != nil {
		return err
	}
	for _, made := range history.List() {
		if _, err := os.Stat(made.Dir); err == nil {
			out.Backups = append(out.Backups, made)
		}
	}
	return nil
}

// trustedReporters returns the keys whose reports fill the moderation queue.
func trustedReporters(cfg *config.Config) []host.PubKey {
	return keysOf(slices.Concat(cfg.Operators, cfg.Moderators, cfg.Reporters))
}

// Queue returns what waits for a decision.
func (m moderator) Queue(ctx context.Context, limit int) ([]reports.Item, error) {
	return reports.Queue(ctx, m.db, m.log, m.trusted, time.Now().Unix(), limit)
}

// Queue returns what waits for a decision, from the database.
func Queue(ctx context.Context, cfg *config.Config, log *slog.Logger, limit int) (list []reports.Item, err error) {
	db, err := OpenStoreReadOnly(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Moderation(ctx, 0)
	if err != nil {
		return nil, err
	}
	var l moderation.Log
	l.Apply(rows)
	return reports.Queue(ctx, db, &l, trustedReporters(cfg), time.Now().Unix(), limit)
}

// trusting stores the reports of people whom the operator trusts, and asks the policy about all other
// events.
type trusting struct {
	ingest.Policy
	keys []host.PubKey
}

func (p trusting) Admit(ctx context.Context, it *host.Item, facts *host.FactReader, now int64) (host.Ruling, error) {
	if it.Event.Kind == host.KindReport && slices.Contains(p.keys, it.Event.PubKey) {
		return host.Ruling{Action: host.Accept, Rule: "trusted-report"}, nil
	}
	return p.Policy.Admit(ctx, it, facts, now)
}

func (m moderator) Moderate(ctx context.Context, ask admin.Moderate, progress func(enforce.Progress)) (out admin.Moderated, err error) {
	out.DryRun = ask.DryRun
	if !ask.DryRun {
		if out.Rows, out.Done, err = m.Enforcer.Moderate(ctx, ask.Rows, progress); err == nil {
			err = m.further(ctx, &out)
		}
		return out, err
	}
	out.Rows = moderation.Missing(ask.Rows, m.log.Rows(0))
	for i := range out.Rows {
		one, err := m.Count(ctx, &out.Rows[i])
		if err != nil {
			return out, err
		}
		out.Done.Events += one.Events
		out.Done.Bytes += one.Bytes
		out.Done.Repositories += one.Repositories
		progress(out.Done)
	}
	return out, m.further(ctx, &out)
}

// Moderate adds rows to the moderation log of a server that does not run, and carries them out.
func Moderate(ctx context.Context, cfg *config.Config, log *slog.Logger, ask admin.Moderate, progress func(enforce.Progress)) (out admin.Moderated, err error) {
	core, err := OpenCore(ctx, cfg, log, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, core.Close(context.WithoutCancel(ctx))) }()
	enforcer := core.newEnforcer(nil)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	enforcing, end := context.WithCancel(running)
	stopped, ended := make(chan error, 1), make(chan error, 1)
	go func() { stopped <- core.Run(running) }()
	go func() { ended <- enforcer.Run(enforcing) }()
	out, err = core.newModerator(cfg, enforcer).Moderate(ctx, ask, progress)
	end()
	err = errors.Join(err, <-ended)
	stop()
	return out, errors.Join(err, <-stopped)
}
