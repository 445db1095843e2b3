package main

import (
	"strconv"
	"strings"

	"talon/sdk/policy"
)

// Describe says what the settings mean for people.
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

// maxNamed is how many services people are told by name.
const maxNamed = 5
