package githttp

import (
	"fmt"
	"net/netip"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitrepo"
)

// disk limits what pushes add to the disk: what clients send, and what git appends to thin
// packs. Each node of a relay counts by itself.
type disk struct {
	stored    *bound.Rate // bytes, with what git appended
	completed *bound.Rate // bytes that git appended, by network
	authors   *bound.KeyRate
	refused   *bound.KeyRate // thin packs, by client
	early     gitrepo.ThinLimit
}

const overShare = "the network that is over its share waits"

func newDisk(l *Limits) *disk {
	return &disk{
		early: l.ThinEarly,
		stored: bound.NewRate(bound.Spec{
			Name: "disk of pushes", Unit: "bytes an hour", Network: l.Disk, Yields: overShare,
		}, time.Now),
		completed: bound.NewRate(bound.Spec{
			Name: "completion of thin packs by network", Unit: "bytes an hour", Network: l.Thin,
			Yields: "the network that is over its share sends packs that are not thin",
		}, time.Now),
		authors: bound.NewKeyRate(bound.Spec{
			Name: "completion of thin packs by author", Unit: "bytes an hour", Key: l.Thin,
			Yields: "the author who is over the share sends packs that are not thin",
		}, time.Now),
		refused: bound.NewKeyRate(bound.Spec{
			Name: "refused thin packs", Unit: "refusals an hour", Key: 1,
			Yields: "the client whose pack was refused is asked for one that is not thin",
		}, time.Now),
	}
}

func (d *disk) bounds() []bound.Spec {
	return []bound.Spec{d.stored.Spec(), d.completed.Spec(), d.authors.Spec(), d.refused.Spec()}
}

// refuse notes that a thin pack of a client is refused. Over HTTP, git push ignores --no-thin:
// only the server can ask for another pack. So the server asks this client for an hour, in
// which one of the two refusals fades away.
func (d *disk) refuse(client netip.Addr) { d.refused.Charge(clientKey(client), 2) }

// clientKey names a client: its network, or its address if it has none.
func clientKey(client netip.Addr) string {
	if network := host.NetworkOf(client); network.IsValid() {
		return network.String()
	}
	return client.String()
}

// OwnerOf names the owner of a repository as the author of a push: the npub, or in a Folder the
// repository itself.
func OwnerOf(repo *gitrepo.Repo) string {
	if npub := repo.Name().Npub(); npub != "" {
		return npub
	}
	return repo.Dir()
}

// noThin reports whether a client is asked for packs that are not thin. It is asked before
// nothing is left: a push that has begun, or whose client has looked at the refs, has a
// quarter of the hour's part.
func (d *disk) noThin(client netip.Addr, author string) bool {
	if d.refused.Wait(clientKey(client)) > 0 {
		return true
	}
	return d.completed.Left(client) < d.completed.Spec().Network/4 || d.authors.Left(author) < d.authors.Spec().Key/4
}

// admit refuses a push with a pack from a network that has used up its hour.
func (d *disk) admit(client netip.Addr) error {
	wait := d.stored.Wait(client)
	if wait == 0 {
		return nil
	}
	return &Refusal{Reason: fmt.Sprintf("pushes from your address have stored %d MiB in an hour: try again in %v",
		d.stored.Spec().Network>>20, wait.Round(time.Minute))}
}

// limit returns what git may append to the pack of a push.
func (d *disk) limit(push *Push) gitrepo.ThinLimit {
	left := min(d.completed.Left(push.Client.Addr), d.authors.Left(push.Author))
	if push.Author == "" {
		return gitrepo.ThinLimit{Free: min(left, d.early.Free), Times: d.early.Times}
	}
	return gitrepo.ThinLimit{Free: left}
}

// charge counts what a pack takes on disk. It refuses a thin pack if other pushes have used
// up the part that it needs.
func (d *disk) charge(q *gitrepo.Incoming, push *Push) error {
	client := push.Client.Addr
	stored, completed := q.Stored()
	d.stored.Charge(client, float64(stored))
	if d.noThin(client, push.Author) {
		q.SentInFull()
	}
	if completed == 0 {
		return nil
	}
	// The network comes first: its pushes must not use up the part of somebody else.
	wait := d.completed.Reserve(client, float64(completed))
	if wait == 0 {
		wait = d.authors.Reserve(push.Author, float64(completed))
	}
	if wait == 0 {
		return nil
	}
	d.refuse(client)
	return &Refusal{unpack: true, Reason: fmt.Sprintf("%s, or in %v: thin packs have made the server store %d MiB in an hour",
		gitrepo.NoThin, max(wait.Round(time.Minute), time.Minute), d.completed.Spec().Network>>20)}
}
