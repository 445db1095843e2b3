// Command grasp is the policy of a GRASP service. It accepts announcements of git repositories,
// their states and pull requests, and events about them.
//
// The rules are those of package grasp of the SDK, which the relay uses as well. The policy holds
// events whose git data is missing, and the relay releases them when the data arrives. It also
// holds a state with too many refs or owners for it to check. The relay then checks the git data
// immediately, and releases the state if the data is complete.
//
// It has an opinion about every event, so it belongs at the end of a chain. An event that an
// earlier policy accepts stays accepted, unless this policy holds it. So it holds only events of
// a repository that exists here or is expected.
package main

import (
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(service))

func main() {}

const kindDeletion = 5 // NIP-09

func (s *service) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if s.rules.Deny.HasAuthor(grasp.PubKey(*event.Author())) {
		return deniedAuthor
	}
	q := s.ask(in.Facts)
	switch kind := event.Kind(); {
	case kind == grasp.KindAnnouncement:
		return q.announcement(event)
	case kind == grasp.KindState:
		return q.state(event)
	case kind == grasp.KindPullRequest, kind == grasp.KindPRUpdate:
		return q.pullRequest(event)
	case kind == kindDeletion:
		return q.deletion(event)
	case grasp.DescribesAuthor(kind):
		return q.profile(event)
	}
	return q.related(event, unrelated)
}

// Verdicts. Each has the code of its rule, which metrics and logs show.
var (
	deniedAuthor = policy.Reject("blocked", "this author may not write here").By("denied-author")
	denied       = reject(grasp.ReasonDenied, "denied-repository")

	identifierLong    = policy.Reject("invalid", "the repository identifier must not be longer than 1024 bytes (d tag)").By("identifier-long")
	announcementLarge = policy.Reject("invalid", "a repository announcement must not be larger than 64 KiB").By("announcement-large")
	announcementNew   = hold("announcement-new")
	announcementKnown = policy.Accept().By("announcement-known")
	maintainer        = policy.Accept().By("announcement-maintainer")
	notListed         = reject(grasp.ReasonNotListed, "announcement-not-listed")
	misplaced         = reject(grasp.ReasonMisplaced, "announcement-misplaced")
	curated           = reject(grasp.ReasonCurated, "announcement-curated")

	stateComplete  = policy.Accept().By("state-complete")
	stateUntracked = policy.Accept().By("state-untracked")
	stateFollows   = follow("state-untracked-waits")
	stateWaits     = hold("state-waits")
	stateFaulty    = hold("state-faulty")
	stateLarge     = hold("state-large")
	noAnnouncement = reject(grasp.ReasonNoAnnouncement, "state-no-announcement")
	notMaintainer  = reject(grasp.ReasonNotMaintainer, "state-not-maintainer")
	noRepository   = policy.Reject("invalid", "none of the repositories that this state is for is here").By("state-no-repository")

	prComplete = policy.Accept().By("pr-complete")
	prFollows  = follow("pr-complete-waits")
	prWaits    = hold("pr-waits")
	prsWaits   = hold("prs-waits")
	prsOther   = policy.Reject("invalid", "a clone URL under /prs/ must name the event's own signer and the identifier of one of its a tags").By("prs-other")

	deletes      = policy.Accept().By("deletion")
	related      = policy.Accept().By("related")
	relatedWaits = follow("related-waits")
	profile      = policy.Accept().By("profile")
	graspList    = policy.Accept().By("grasp-list")
	unrelated    = reject(grasp.ReasonUnrelated, "unrelated")
	early        = unrelated.RetryFor(60)

	archived = policy.Reject("blocked", grasp.ReasonArchived).By("archived")
)

func hold(rule string) policy.Verdict { return withReason(policy.ActionHold, grasp.ReasonHeld, rule) }

// follow holds an event that only a held one justifies.
func follow(rule string) policy.Verdict {
	return policy.Hold("won't be served until the event that this one is about is").By(rule)
}

func reject(reason, rule string) policy.Verdict {
	return withReason(policy.ActionReject, reason, rule)
}

// maxRepositories is the most that the manifest allows for
// max_repositories_per_author.
const maxRepositories = 100

// service has the operator's settings.
type service struct {
	rules        grasp.Rules
	archiving    bool // an archive setting is in use
	readOnly     bool
	prs          bool
	profiles     bool
	repositories int // most of an author; 0: any number

	quota policy.Verdict // for one more

	own   reader             // of the event that is asked about
	found grasp.Announcement // the last that place has read
}

func (s *service) Configure(cfg policy.Config) (err error) {
	*s = service{
		readOnly: cfg.Bool("read_only"), profiles: cfg.Bool("profiles"), prs: cfg.Service().PRs,
		repositories: int(cfg.Int("max_repositories_per_author")),
	}
	s.quota = policy.Reject("blocked", "you have "+strconv.Itoa(s.repositories)+" repositories here, which is as many as one author may have").By("announcement-quota")
	r := &s.rules
	if r.Service, err = grasp.ParseService(cfg.Service().Domain); err != nil {
		return errors.New("the relay is reached at " + strconv.Quote(cfg.Service().Domain) + ": " + err.Error())
	}
	for _, list := range []struct {
		key string
		to  *grasp.List
	}{{"archive", &r.Archive.List}, {"allow", &r.Allow}, {"deny", &r.Deny}} {
		for _, entry := range cfg.Strings(list.key) {
			// One by one, so that the error says which list it is.
			if _, err := grasp.ParseList([]string{entry}); err != nil {
				return policy.WrongValue(list.key, entry, "npub, npub/identifier or identifier; "+withoutEntry(err, entry))
			}
		}
		if *list.to, err = grasp.ParseList(cfg.Strings(list.key)); err != nil {
			return err
		}
	}
	for _, domain := range cfg.Strings("archive_services") {
		other, err := grasp.ParseService(domain)
		if err != nil {
			return policy.WrongValue("archive_services", domain, "a domain, with a port where it is not the usual one, without scheme and path, such as gitnostr.com")
		}
		r.Archive.Services = append(r.Archive.Services, other)
	}
	r.Archive.All = cfg.Bool("archive_all")
	s.archiving = r.Archive.All || !r.Archive.List.Empty() || len(r.Archive.Services) > 0
	return nil
}

// withoutEntry returns the text of an error of a list without the entry, because the message names
// it already.
func withoutEntry(err error, entry string) string {
	return strings.TrimPrefix(err.Error(), strconv.Quote(entry)+": ")
}

// Describe describes the settings for people.
func (s *service) Describe() policy.Description {
	d := policy.Description{Grasps: []string{"GRASP-01"}, Criteria: s.criteria(), Curation: s.curation(), Writes: policy.WritesRestricted}
	if s.archiving {
		d.Grasps = append(d.Grasps, "GRASP-05")
	}
	if s.prs {
		d.Grasps = append(d.Grasps, "GRASP-06")
	}
	return d
}

func (s *service) criteria() string {
	var b strings.Builder
	b.WriteString("Git repositories whose announcement lists ")
	b.WriteString(s.rules.Service.String())
	b.WriteString(" in both its clone and its relays tags")
	if !s.rules.Allow.Empty() {
		b.WriteString(", if the operator has chosen them")
	}
	if s.repositories > 0 {
		b.WriteString(", at most ")
		b.WriteString(strconv.Itoa(s.repositories))
		b.WriteString(" of one author")
	}
	archive := &s.rules.Archive
	switch {
	case archive.All:
		b.WriteString("; all other repositories, as read-only archives")
	case s.archiving:
		b.WriteString("; some other repositories, as read-only archives")
	}
	if s.prs {
		b.WriteString("; pull requests for repositories elsewhere, pushed to /prs/")
	}
	b.WriteString("; and events about what is accepted here.")
	if s.readOnly {
		b.WriteString(" Nothing can be pushed: every repository here is a read-only archive.")
	}
	return b.String()
}

func (s *service) curation() string {
	var parts []string
	if !s.rules.Allow.Empty() {
		parts = append(parts, "New repositories are hosted if they are on the operator's list.")
	}
	archive := &s.rules.Archive
	if !archive.All && !archive.List.Empty() {
		parts = append(parts, "Repositories on the operator's list are archived.")
	}
	if !archive.All && len(archive.Services) > 0 {
		var names []string
		for i, other := range archive.Services {
			if i == maxNamed {
				names = append(names, "and others")
				break
			}
			names = append(names, other.String())
		}
		parts = append(parts, "Repositories that list "+strings.Join(names, ", ")+" are archived.")
	}
	return strings.Join(parts, " ")
}

// maxNamed is how many services the description names.
const maxNamed = 5

// question is one decision with its reads of the relay, within bounds.
//
// Strangers could make a decision expensive. A decision that spends all its fuel, or reads more
// than it may, counts as a failure. After five failures in a row the policy decides nothing any
// more. So each question stays within these bounds.
type question struct {
	*service
	in    policy.Facts
	reads int // that it may have used up
}

const (
	// maxReads is below the 64 that a relay allows. A query may count twice, since it
	// is repeated where the answer needs more room.
	maxReads = 60

	maxIdentifier = 1 << 10 // bytes: longer ones are nobody's repository
)

func (s *service) ask(in policy.Facts) *question { return &question{service: s, in: in} }

// may reports whether n more reads are allowed.
func (q *question) may(n int) bool { return q.reads+n <= maxReads }

// stored asks for stored events, and held for those in purgatory. A read beyond
// the limit finds nothing.
func (q *question) stored(f policy.Filter) policy.Events {
	if !q.may(2) {
		return policy.Events{}
	}
	q.reads += 2
	return q.in.Query(f)
}

func (q *question) held(f policy.Filter) policy.Events {
	if !q.may(2) {
		return policy.Events{}
	}
	q.reads += 2
	return q.in.QueryHeld(f)
}

// pending returns the address of the held announcement on which an event about some
// repositories depends: none of them is announced by a stored event. "" if one is.
func (q *question) pending(repos []grasp.Repo) string {
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress}}}
	for _, repo := range repos[:min(len(repos), maxLooked)] {
		f.Tags[0].Values = append(f.Tags[0].Values, repo.Address())
	}
	switch {
	case len(repos) == 0:
		return ""
	case !q.may(4):
		return f.Tags[0].Values[0] // what cannot be looked up is not taken for stored
	case q.finds(q.stored, f):
		return ""
	}
	return q.heldAs(f)
}

// heldAs returns the id or the address of a held event that matches, "" for none.
func (q *question) heldAs(f policy.Filter) string {
	f.Limit, f.Header = 1, false
	found := q.held(f)
	if !found.Next() {
		return ""
	}
	event := found.Event()
	if kind := event.Kind(); kind >= 30000 && kind < 40000 {
		return addressOf(event)
	}
	return event.ID().String()
}

// everywhere returns both stored and held. A result is valid until the next call of either.
func (q *question) everywhere() [2]func(policy.Filter) policy.Events {
	return [2]func(policy.Filter) policy.Events{q.stored, q.held}
}

// exists reports whether an event that matches is stored or held.
func (q *question) exists(f policy.Filter) bool {
	return q.finds(q.stored, f) || q.finds(q.held, f)
}

// finds reports whether ask finds an event that matches the filter.
func (q *question) finds(ask func(policy.Filter) policy.Events, f policy.Filter) bool {
	f.Limit, f.Header = 1, true
	found := ask(f)
	return found.Next()
}

// has reports whether the repository with this address is here and has the object;
// "" asks for the repository alone.
func (q *question) has(address, object string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.GitHas(address, object)
}

// hasCommit is has for an object that must be a commit.
func (q *question) hasCommit(address, object string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.GitHasCommit(address, object)
}

// referenced reports whether a stored event names the id or address.
func (q *question) referenced(idOrAddress string) bool {
	if !q.may(1) {
		return false
	}
	q.reads++
	return q.in.Referenced(idOrAddress)
}

// at returns a filter for the event at an address.
func at(address string) policy.Filter {
	return policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress, Values: []string{address}}}}
}

// askable reports whether a filter can ask for the identifier.
func askable(identifier string) bool {
	return len(identifier) <= maxIdentifier && utf8.ValidString(identifier)
}
