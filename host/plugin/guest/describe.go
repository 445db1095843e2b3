package guest

import (
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/abi"
)

// maxAbout bounds each text that a module says about the relay.
const maxAbout = 1 << 10

// describe makes what a module says about the relay fit for others: known words,
// and texts of one line.
func describe(about *abi.About) (host.Description, error) {
	d := host.Description{Criteria: oneLine(about.Criteria, maxAbout), Curation: oneLine(about.Curation, maxAbout), Writes: host.Writes(about.Writes)}
	d.Limits = host.Limitation(about.Limits)
	for _, n := range []int64{d.Limits.MaxContentLength, d.Limits.MaxEventTags, d.Limits.CreatedAtLowerLimit, d.Limits.CreatedAtUpperLimit, d.Limits.MinPowDifficulty} {
		if n < 0 {
			return host.Description{}, fmt.Errorf("a limit for NIP-11 is %d: want 0 for none, or more", n)
		}
	}
	for _, grasp := range about.Grasps {
		if !isGrasp(grasp) {
			return host.Description{}, fmt.Errorf("%.40q is not the name of a GRASP, such as GRASP-01", grasp)
		}
		d.Grasps = append(d.Grasps, grasp)
	}
	slices.Sort(d.Grasps)
	d.Grasps = slices.Compact(d.Grasps)
	return d, nil
}

// isGrasp reports whether s is GRASP- and two to four digits.
func isGrasp(s string) bool {
	digits, ok := strings.CutPrefix(s, "GRASP-")
	return ok && len(digits) >= 2 && len(digits) <= 4 && strings.Trim(digits, "0123456789") == ""
}
