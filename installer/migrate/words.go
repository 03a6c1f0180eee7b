// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"strings"
)

// perAction phrases how many steps there are of each action.
func perAction(steps []Step, phrase func(Action, string) string) string {
	counts := map[Action]int{}
	for i := range steps {
		counts[steps[i].Action]++
	}
	var out []string
	for _, a := range []Action{ActionRename, ActionDelete, ActionCreate} {
		if counts[a] > 0 {
			out = append(out, phrase(a, CountRules(counts[a])))
		}
	}
	return strings.Join(out, ", ")
}

// ToDo says in words what steps will do.
func ToDo(steps []Step) string {
	return perAction(steps, func(a Action, n string) string { return string(a) + " " + n })
}

// Did says in words what steps did.
func Did(steps []Step) string {
	words := map[Action]string{ActionRename: "renamed", ActionDelete: "deleted", ActionCreate: "made again"}
	return perAction(steps, func(a Action, n string) string { return n + " " + words[a] })
}

// CountRules is a number with its noun.
func CountRules(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}
