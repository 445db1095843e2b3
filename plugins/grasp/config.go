package main

import (
	"errors"
	"strconv"
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// maxRepositories is the most that the manifest allows for
// max_repositories_per_author.
const maxRepositories = 100

// service is what the operator has chosen.
type service struct {
	rules        grasp.Rules
	archiving    bool // an archive setting is in use
	readOnly     bool
	prs          bool
	profiles     bool
	repositories int // most of an author; 0: any number

	quota policy.Verdict // for one more

	own, found reader // of the event that is asked about, and of others
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

// withoutEntry returns what an error of a list says of the entry, which is named
// already.
func withoutEntry(err error, entry string) string {
	return strings.TrimPrefix(err.Error(), strconv.Quote(entry)+": ")
}
