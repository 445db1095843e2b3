package session

import (
	"talon/host"
	rules "talon/sdk/grasp"
)

// repositoriesOf returns the repositories whose addresses a filter names.
func repositoriesOf(f *host.Filter) (repos []string) {
	had := map[string]bool{}
	for _, t := range f.Tags {
		for _, v := range t.Values {
			if a, ok := host.ParseAddress(v); ok && a.Kind == rules.KindAnnouncement && !had[v] {
				had[v] = true
				repos = append(repos, v)
			}
		}
	}
	return repos
}
