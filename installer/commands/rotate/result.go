// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Result is what a rotation says at its end, or ending old keys, which has no new ones.
type Result struct {
	SchemaVersion int      `json:"schemaVersion"`
	Account       string   `json:"account"`
	Secret        string   `json:"secret"`                 // namespace/name
	Ended         []string `json:"ended"`                  // users whose old keys are worthless
	User          string   `json:"user,omitempty"`         // whose keys are in use now
	OldUser       string   `json:"oldUser,omitempty"`      // whose keys were in use before
	Proof         string   `json:"proof,omitempty"`        // reload or restart
	Pods          int      `json:"pods,omitempty"`         // that work with the new keys
	NextRotation  string   `json:"nextRotation,omitempty"` // user that the next one takes
	// Restarted are the other workloads that were restarted. KeptFor are the reasons why the old keys still work.
	Restarted []string `json:"restarted"`
	KeptFor   []string `json:"keptFor"`
}

func (r *run) outcome() Result {
	p := r.plan
	out := r.result
	out.SchemaVersion, out.Account, out.Secret, out.User, out.OldUser = 1, p.Account, p.Namespace+"/"+p.Secret, p.To, p.From
	out.Ended, out.Restarted, out.KeptFor = append([]string{}, r.ended...), append([]string{}, r.restarted...), append([]string{}, r.kept...)
	if len(r.kept) == 0 {
		out.NextRotation = p.From
	}
	return out
}

// done prints the result for a person.
func (r *run) done(w io.Writer) error {
	var b strings.Builder
	switch {
	case r.plan.Finish && len(r.ended) == 0:
		b.WriteString("no keys that the Secret held before work any more: nothing to do\n")
	case r.plan.Finish:
		fmt.Fprintf(&b, "the old keys of %s are worthless\n", strings.Join(r.ended, ", "))
	default:
		old := "are worthless"
		if len(r.kept) > 0 {
			old = "still work"
		}
		fmt.Fprintf(&b, "the controller works with the keys of user %q (%s of %s); the keys of user %q %s\n",
			r.plan.To, r.result.Proof, count(r.result.Pods), r.plan.From, old)
	}
	if len(r.kept) > 0 {
		reasons(&b, r.kept)
		b.WriteString("When nothing uses them any more, end them: csccm rotate-keys --finish\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func reasons(b *strings.Builder, all []string) {
	for _, why := range all {
		fmt.Fprintf(b, "  - %s\n", why)
	}
}

func count(pods int) string { return english.Plural(pods, "Pod", "") }

// show returns what prints the plan.
func (p *Plan) show(restarts bool) func(w io.Writer) error {
	return func(w io.Writer) error {
		var b strings.Builder
		head, kept := "Rotation of the keys in Secret %[2]s/%[3]s, account %[1]q:\n", "So the old keys still work afterwards:\n"
		if p.Finish {
			head, kept = "Old keys of account %q, which Secret %s/%s held before:\n", "What stops working:\n"
		}
		fmt.Fprintf(&b, head, p.Account, p.Namespace, p.Secret)
		reasons(&b, p.Steps)
		p.print(&b, restarts)
		if len(p.KeepsOldKeys) > 0 && p.KeepsOldKeys[0] != "--keep-old" {
			b.WriteString(kept)
			reasons(&b, p.KeepsOldKeys)
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
}
