package grasp

// Rules are what an operator lets a service accept.
type Rules struct {
	Service Service // how the service is called from outside
	Archive Archive
	Allow   List // if it is not empty, new repositories must be on it
	Deny    List // comes before everything else
}

// Archive says which announcements that do not list the service are accepted all
// the same (GRASP-05). The zero Archive takes none.
type Archive struct {
	All      bool
	List     List
	Services []Service // those that list one of these
}

// Takes reports whether the archive wants the repository.
func (ar *Archive) Takes(a *Announcement) bool {
	return ar.All || ar.List.Has(a.Repo()) || anyOf(ar.Services, a.ListsService)
}

// Standing is what an announcement is to a service.
type Standing uint8

const (
	Refused  Standing = iota
	Hosted            // it has a repository here, and pushes are accepted
	Archived          // it has a repository here that is read-only (GRASP-05)
	Member            // it only tells who maintains others' repositories: it has none here
)

func (s Standing) String() string {
	return [...]string{"refused", "hosted", "archived", "member"}[s]
}

// ReasonArchived refuses a push.
const ReasonArchived = "this repository is a read-only archive: push to a service that its announcement lists"

// Announcement decides about an announcement, and says why it is refused.
// Maintained is whether its author is in the recursive maintainer set of an
// accepted announcement with the same identifier: then it must be accepted, and
// if no other rule gives it a repository, it has none.
func (r *Rules) Announcement(a *Announcement, maintained bool) (standing Standing, reason string) {
	if r.Deny.Has(a.Repo()) {
		return Refused, ReasonDenied
	}
	listed := a.ListsService(r.Service)
	misplaced := listed && a.Misplaced(r.Service)
	switch {
	case misplaced && !maintained:
		return Refused, ReasonMisplaced
	case misplaced:
		return Member, ""
	case listed && (r.Allow.Empty() || r.Allow.Has(a.Repo())):
		return Hosted, ""
	case !listed && r.Archive.Takes(a):
		return Archived, ""
	case maintained:
		return Member, ""
	case listed:
		return Refused, ReasonCurated
	}
	return Refused, ReasonNotListed
}
