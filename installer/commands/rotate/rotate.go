// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/selftest"
)

// Field managers of the Secret. keysManager writes only the keys, so that the time of its last write in managedFields
// is when the keys were changed.
const keysManager, recordManager = "csccm-rotate-keys", "csccm"

// Options of a rotation.
type Options struct {
	KeepOld bool // do not revoke the old keys
	// Finish revokes the old keys that rotations have kept, and does nothing else. Force revokes them even if something
	// still uses them.
	Finish, Force bool

	Admin engine.LogIn
	// API commands that the controller must and may call.
	Required, Optional []string
}

// Validate checks the options as far as that needs no connection.
func (o *Options) Validate() error {
	switch {
	case o.Force && !o.Finish:
		return report.Usage("add --finish, or leave --force out", "--force is only for --finish")
	case o.Finish && o.KeepOld:
		return report.Usage("leave it out", "--finish creates no new keys: --keep-old has no effect with it")
	}

	return nil
}

// run is one run of csccm rotate-keys.
type run struct {
	*engine.Env
	*access.Cloud // with the keys that the Secret held at the start
	Options

	admin   *cloudapi.Client
	plan    *Rotation
	keys    cloudapi.Keys     // new keys
	old     []byte            // cloud-config in the Secret before the change
	changed time.Time         // when the Secret got its current keys; zero before the change
	hide    []string          // secrets to remove from all output
	heard   map[string]string // logs by Pod, from before the change of the Secret or the restart
}

// Run rotates the keys.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	cs, err := access.OfSecret(ctx, e.Cluster, e.Release)
	if err != nil {
		return err
	}
	defer cs.Close()

	if !o.Finish {
		if err := cs.Secret.Changeable(); err != nil {
			return err
		}
	}

	r := &run{Env: e, Options: o, Cloud: cs, hide: []string{cs.Config.APIKey, cs.Config.SecretKey}}
	e.Scrub = func(text string) string { return report.Mask(text, r.hide...) }

	// Make no keys if no Pod could test them.
	if _, err := r.pods(ctx); err != nil {
		return err
	}

	login := *r.Config
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	admin, end, err := o.Admin(ctx, e, &login)
	if err != nil {
		return err
	}
	defer end()

	r.admin = admin
	if err := r.newPlan(ctx); err != nil {
		return err
	}

	p := r.plan
	if o.Finish || p.switched {
		r.changed = r.changedAt(r.Secret.Object)
	}

	if p.Found, err = r.look(ctx); err != nil {
		return err
	}

	steps := r.steps()
	op := engine.Operation{
		Name:  "rotate-keys",
		What:  fmt.Sprintf("rotate the keys of account %q", p.Account),
		Plan:  r.shown(steps),
		Done:  r.done,
		Steps: steps,
	}

	if o.Finish {
		op.What = fmt.Sprintf("revoke old keys of account %q", p.Account)
		op.Check = func(context.Context) error { return r.mayBreak(p.UsedBy) }
	}

	return e.Run(ctx, op)
}

// steps returns the remaining steps.
func (r *run) steps() (steps []engine.Step) {
	p := r.plan
	step := func(do func(context.Context) error, format string, args ...any) {
		steps = append(steps, engine.Step{Name: fmt.Sprintf(format, args...), Shielded: true, Do: do})
	}

	if len(p.ends) == 0 {
		return nil
	}

	if !r.Finish && !p.switched {
		if p.toID == "" {
			step(r.makeUser, "create user %q in account %q", p.To, p.Account)
		}
		step(r.makeKeys, "register API keys for user %q, and test them", p.To)
		step(r.write, "write them into Secret %s", p.Secret)
	}

	if !r.Finish {
		name := fmt.Sprintf("wait until the controller works with the keys of user %q", p.To)
		steps = append(steps, engine.Step{Name: name, Do: r.prove})
	}

	p.UsedBy = append(p.UsedBy, r.oldKeyUsers(p.Found)...)
	for _, u := range p.ends {
		text := "revoke the old keys of user %q: whatever else uses them stops working"
		if len(p.UsedBy) > 0 && !r.Finish {
			text = "leave the keys of user %q as they are"
			if p.created.Mine(&u) {
				text += "; csccm rotate-keys --finish revokes them"
			}
		}
		step(func(ctx context.Context) error { return r.retire(ctx, &u) }, text, u.Username)
	}

	if r.Finish {
		step(func(ctx context.Context) error {
			return report.Remedied(credentials.CheckKeys(ctx, r.Config.APIURL, r.Client),
				"the old keys are revoked; see csccm doctor")
		}, "test the keys in the Secret")
	}

	return steps
}

// change updates the Secret and the record on it in one write. It retries conflicts.
func (r *run) change(
	ctx context.Context, manager string, edit func(s *corev1.Secret, record *access.Rotation),
) (*corev1.Secret, error) {
	secrets := r.Cluster.Kube.CoreV1().Secrets(r.Secret.Namespace)
	var changed *corev1.Secret
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := secrets.Get(ctx, r.Secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		s = s.DeepCopy()
		record := access.RotationOf(s)
		edit(s, &record)
		record.Write(s)
		changed, err = secrets.Update(ctx, s, metav1.UpdateOptions{FieldManager: manager})
		return err
	})

	return changed, r.Cluster.Explain(err)
}

// record changes only the record on the Secret.
func (r *run) record(ctx context.Context, edit func(record *access.Rotation)) error {
	_, err := r.change(ctx, recordManager, func(_ *corev1.Secret, record *access.Rotation) { edit(record) })
	return err
}

// begin records the user of the new keys on the Secret, so that the next run continues with the same user if this run
// stops.
func (r *run) begin(record *access.Rotation) { record.To = r.plan.To }

// makeUser creates the user of the new keys.
func (r *run) makeUser(ctx context.Context) error {
	p, holder := r.plan, &r.plan.ends[0]
	created := &credentials.CreatedObject{
		Kind:     credentials.CreatedUser,
		Name:     p.To,
		Account:  p.Account,
		DomainID: holder.DomainID,
		Domain:   holder.Domain,
	}

	if err := r.record(ctx, r.begin); err != nil {
		return err
	}

	return credentials.Recorded(ctx, r.Cluster, r.Config, []*credentials.CreatedObject{created}, func() error {
		u, err := r.admin.CreateUser(ctx, cloudapi.NewUser{
			Cluster:  p.created.Cluster,
			Account:  p.Account,
			Name:     p.To,
			DomainID: holder.DomainID,
		})
		if err != nil {
			return fmt.Errorf("creating user %q: %w", p.To, err)
		}

		r.Note("made user %q", p.To)
		p.toID, created.ID = u.ID, u.ID
		return nil
	})
}

// makeKeys registers the new keys, and tests them with the API calls of the controller.
func (r *run) makeKeys(ctx context.Context) error {
	p := r.plan
	r.Progress.Step("New keys of user %q", p.To)
	err := r.record(ctx, r.begin)
	if err == nil {
		err = credentials.Recorded(ctx, r.Cluster, r.Config, p.lost, func() (err error) {
			r.keys, err = r.register(ctx, p.To, p.toID)
			return err
		})
	}

	if err != nil {
		return err
	}

	r.Note("registered keys of user %q", p.To)
	cfg := *r.Config
	cfg.APIKey, cfg.SecretKey = r.keys.APIKey, r.keys.SecretKey
	api, err := cloudstack.NewClient(&cfg)
	if err == nil {
		test := &selftest.Test{Config: &cfg, Client: api, Required: r.Required, Optional: r.Optional, Out: io.Discard}
		_, err = credentials.Verify(ctx, test)
	}

	if err == nil {
		r.Progress.Done("they do what the controller needs")
	}

	return err
}

// register registers a new pair of keys for a user, which revokes the user's old pair.
func (r *run) register(ctx context.Context, user, id string) (cloudapi.Keys, error) {
	keys, err := r.admin.RegisterUserKeys(ctx, id)
	if err != nil {
		return keys, fmt.Errorf("registering keys for user %q: %w", user, err)
	}

	r.hide = append(r.hide, keys.APIKey, keys.SecretKey)
	return keys, nil
}

// write writes the new keys into the Secret, and records in the same write whose keys it held before.
func (r *run) write(ctx context.Context) error {
	if err := r.hear(ctx); err != nil {
		return err
	}

	r.Progress.Step("Secret %s", r.plan.Secret)
	next := *r.Secret.Config
	next.APIKey, next.SecretKey = r.keys.APIKey, r.keys.SecretKey
	written, err := r.change(ctx, keysManager, func(s *corev1.Secret, record *access.Rotation) {
		r.old = bytes.Clone(s.Data[r.Secret.Key])
		s.Data[r.Secret.Key] = next.Render()
		record.From, record.To = r.plan.From, ""
		record.Replaced(r.plan.From, r.Secret.Config.APIKey)
	})

	if err == nil {
		r.changed = r.changedAt(written)
		r.Note("the Secret holds the keys of user %q", r.plan.To)
		r.Progress.Done("written")
	}

	return err
}

// writeBack writes the old keys into the Secret again, also if the run is interrupted meanwhile.
func (r *run) writeBack(ctx context.Context) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		_, err := r.change(ctx, keysManager, func(s *corev1.Secret, record *access.Rotation) {
			s.Data[r.Secret.Key] = r.old
			record.From, record.To = "", r.plan.To
		})
		return err
	})
}

// changedAt returns when the keys in the Secret were written, by the clock of the API server, which also sets the
// creation time of Pods. If the Secret does not say so, changedAt returns the current time, so that all Pods count as
// older.
func (r *run) changedAt(s *corev1.Secret) time.Time {
	if _, written := cluster.LastWritten(&s.ObjectMeta, r.Secret.Key); !written.IsZero() {
		return written
	}
	return r.Clock.Now()
}

// oldKeyUsers returns the reasons to keep the old keys; with --finish, what stops working when they are revoked.
func (r *run) oldKeyUsers(f *access.Found) (why []string) {
	if r.KeepOld {
		why = []string{"--keep-old"}
	}

	for _, u := range r.plan.ends {
		if !r.plan.created.Mine(&u) {
			why = append(why, credentials.NotMine(u.Username)+": revoke them in CloudStack when nothing uses them")
		}
	}

	why = append(why, inUse(f, r.changed)...)
	for _, what := range f.NotRead {
		if !r.Finish { // with --finish the plan shows what could not be read, and the user decides
			why = append(why, "csccm may not read "+what)
		}
	}

	return why
}

// mayBreak returns an error if something would stop working, unless --force is set.
func (r *run) mayBreak(breaks []string) error {
	if len(breaks) == 0 || r.Force {
		return nil
	}

	return report.CheckFailed(
		"restart the Pods that started before the change (kubectl rollout restart), write the new keys into the "+
			"copies; or revoke the old keys anyway with --force",
		"the old keys are still in use: %s", strings.Join(breaks, "; "),
	)
}

// retire revokes the old keys of a user, by registering a pair that is not stored anywhere. The next rotation uses this
// user. If something may still use the old keys, retire keeps them, and the next rotation does not use this user.
func (r *run) retire(ctx context.Context, u *cloudapi.User) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}

	usedBy := r.oldKeyUsers(found)
	switch {
	case r.Finish:
		if err := r.mayBreak(usedBy); err != nil {
			return err
		}
	case len(usedBy) > 0:
		r.plan.UsedBy = usedBy
		return r.record(ctx, func(record *access.Rotation) { record.From, record.Spare = "", "" })
	}

	r.plan.UsedBy = []string{}
	r.Progress.Step("Old keys of user %q", u.Username)
	if _, err := r.register(ctx, u.Username, u.ID); err != nil {
		return err
	}

	r.plan.Ended = append(r.plan.Ended, u.Username)
	r.Note("the old keys of user %q are revoked", u.Username)
	r.Progress.Done("revoked")
	return r.record(ctx, func(record *access.Rotation) { record.From, record.Spare = "", u.Username })
}
