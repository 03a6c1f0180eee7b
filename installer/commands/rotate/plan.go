// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotate gives the controller new API keys without a moment in which it has none that work.
//
// A CloudStack user has one pair of keys, and registering another revokes the old one at once. So the new pair is that
// of a second user of the same account, which has the same rights and sees the same resources (the role is the
// account's). The order is: new pair, proven call by call; Secret; proof that the controller works with it; only then
// the old pair is revoked, by registering one that nobody gets to know. Until that last step the way back is the old
// Secret. The next rotation uses the first user again.
//
// How far a rotation came is written on the Secret itself, with its content (access.Rotation).
package rotate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
)

// Plan is what a rotation would do, and did. It holds no secret. With --finish it only revokes old keys, and has no
// From and To.
type Plan struct {
	SchemaVersion int      `json:"schemaVersion"`
	DryRun        bool     `json:"dryRun"`
	Secret        string   `json:"secret"` // namespace/name
	Account       string   `json:"account"`
	From          string   `json:"from,omitempty"` // user of the old keys
	To            string   `json:"to,omitempty"`   // user of the new keys
	Steps         []string `json:"steps"`
	*access.Found
	// KeptFor are the reasons why the old keys work on, or, with --finish, who stops working.
	KeptFor []string `json:"keptFor"`
	Stays   []string `json:"stays,omitempty"` // old keys that --finish may not revoke
	Proof   string   `json:"proof,omitempty"` // that the controller works with the new keys: reload or restart
	Pods    int      `json:"pods,omitempty"`  // that proved it
	Ended   []string `json:"ended"`           // users whose old keys are revoked

	made     *credentials.Made
	ends     []cloudapi.User // whose old keys are revoked, if nothing keeps them
	toID     string          // "" = to be created
	switched bool            // the Secret holds the new keys already
}

// newPlan finds whose keys the Secret holds, who is next, and whose old keys end.
func (r *run) newPlan(ctx context.Context) error {
	record := access.RotationOf(r.Secret.Object)
	p := &Plan{
		SchemaVersion: 1,
		DryRun:        r.DryRun,
		Secret:        r.Secret.String(),
		Steps:         []string{},
		KeptFor:       []string{},
		Ended:         []string{},
	}

	r.plan = p
	all, err := r.admin.ListUsers(ctx, "")
	if err != nil {
		return fmt.Errorf("listing users: %w", err)
	}

	if p.made, err = credentials.ReadMade(ctx, r.Cluster.Kube, r.Cluster.Namespace); err != nil {
		return err
	}

	at := slices.IndexFunc(all, func(u cloudapi.User) bool { return u.APIKey != "" && u.APIKey == r.Config.APIKey })
	if at < 0 {
		return report.Errorf(
			"log in as an administrator of the user's domain; if the keys are dead already, csccm install "+
				"--overwrite-secret makes others",
			"the keys in Secret %s belong to no user that this administrator sees", p.Secret,
		)
	}

	holder := all[at]
	p.Account = holder.Account

	// User names are unique in a domain.
	users := slices.DeleteFunc(all, func(u cloudapi.User) bool { return u.DomainID != holder.DomainID })
	named := func(name string) (u cloudapi.User) {
		if i := slices.IndexFunc(users, func(u cloudapi.User) bool { return u.Username == name }); i >= 0 &&
			users[i].ID != holder.ID {
			u = users[i]
		}
		return u
	}

	from := named(record.From)
	switch {
	case r.Finish && record.From+record.To != "":
		return report.Refused("run csccm rotate-keys again, which goes on with it; with --keep-old it keeps "+
			"the old keys", "a rotation has not ended")
	case r.Finish:
		for _, u := range users {
			switch {
			case u.Account != holder.Account || !r.Secret.HasReplaced(u.APIKey):
			case p.made.Mine(&u):
				p.ends = append(p.ends, u)
			default:
				p.Stays = append(p.Stays, credentials.NotMine(u.Username))
			}
		}

	case from.Account == holder.Account:
		p.switched, p.From, p.To, p.ends = true, record.From, holder.Username, []cloudapi.User{from}
	default:
		mine := func(name string) bool {
			u := named(name)
			return u.Account == holder.Account && p.made.Mine(&u)
		}
		p.From, p.To, p.ends = holder.Username, next(holder.Username, users, mine, record), []cloudapi.User{holder}
		p.toID = named(p.To).ID
	}

	return nil
}

// next is the user that gets the new keys: that of a rotation that did not end, the one that the last rotation left, or
// a new one. A user that somebody else may work with is never taken: its keys would end.
func next(holder string, users []cloudapi.User, mine func(name string) bool, record access.Rotation) string {
	for _, name := range []string{record.To, record.Spare} {
		if mine(name) {
			return name
		}
	}
	return credentials.FreeName(holder, users)
}

// show is the plan for a person.
func (r *run) show(report.Style) string {
	p := r.plan
	var b strings.Builder
	head, kept := "Rotation of the keys in Secret %s, account %q:\n", "So the old keys still work afterwards:\n"
	if r.Finish {
		head, kept = "Old keys that Secret %s held before, account %q:\n", "What stops working:\n"
	}

	fmt.Fprintf(&b, head, p.Secret, p.Account)
	section(&b, "", p.Steps)
	section(&b, "These keys are used by:\n", cloudapi.Names(p.Users, func(u *access.User) string {
		return fmt.Sprintf("%s (%s, Secret %s): %s", u, count(u.PodCount), u.Secret, needsText[u.Needs])
	}))
	section(&b, "Not looked at:\n", p.NotRead)
	section(&b, kept, p.KeptFor)
	section(&b, "What stays:\n", p.Stays)
	if len(p.Steps)+len(p.Stays) == 0 {
		b.WriteString("no keys that the Secret held before work any more: nothing to do\n")
	}

	return b.String()
}

// section prints a list with its title; nothing without any.
func section(b *strings.Builder, title string, all []string) {
	if len(all) > 0 {
		b.WriteString(title)
	}
	for _, text := range all {
		fmt.Fprintf(b, "  - %s\n", text)
	}
}

// done is what was done, for a person.
func (r *run) done() string {
	p := r.plan
	if r.Finish {
		return fmt.Sprintf("the old keys of %s are revoked\n", strings.Join(p.Ended, ", "))
	}
	var b strings.Builder
	old, next := "are revoked", ""
	if len(p.KeptFor) > 0 {
		old = "still work"
		if p.made.Mine(&p.ends[0]) {
			next = "When nothing uses them any more, end them: csccm rotate-keys --finish\n"
		}
	}
	fmt.Fprintf(&b, "the controller works with the keys of user %q (%s of %s); the keys of user %q %s\n", p.To, p.Proof,
		count(p.Pods), p.From, old)
	section(&b, "", p.KeptFor)
	return b.String() + next
}
