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

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/plural"
)

// Command is the name of this command's runs in the journal.
const Command = "rotate-keys"

// Options of a rotation.
type Options struct {
	User    string // of the new keys; "" = chosen
	KeepOld bool   // do not make the old keys worthless
	Restart bool   // restart the Pods instead of waiting for them to take the keys over
	// ReloadTimeout is how long the Pods may take to take the keys over before they are restarted; 0 = DefaultReloadTimeout.
	ReloadTimeout time.Duration

	// Admin makes the administrator's session for the API at cfg's URL, and ends it.
	Admin func(ctx context.Context, cfg *cloudstack.Config) (admin *cloudstack.Client, end func(), err error)
	// Commands that the controller calls, and those of them it can do without.
	Required, Optional []string
}

// Result is what a finished rotation says.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	Account       string `json:"account"`
	User          string `json:"user"`         // whose keys are in use now
	OldUser       string `json:"oldUser"`      // whose keys were in use before
	OldKeysWork   bool   `json:"oldKeysWork"`  // true with KeepOld
	Proof         string `json:"proof"`        // reload or restart
	Secret        string `json:"secret"`       // namespace/name
	Pods          int    `json:"pods"`         // that work with the new keys
	NextRotation  string `json:"nextRotation"` // user that the next one takes
}

type run struct {
	*engine.Env
	Options

	secret  *credentials.Secret
	local   *cloudstack.Config // the Secret's, for this machine
	admin   *cloudstack.Client
	plan    *Plan
	keys    credentials.Keys // the new ones
	old     []byte           // the Secret's cloud-config before
	hide    []string         // secrets that no text may hold
	result  Result
	watcher *watcher
}

// Run rotates the keys.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	r := &run{Env: e, Options: o}
	e.Scrub = r.scrub
	var err error
	if r.secret, err = credentials.ReadSecret(ctx, e.Cluster.Kube, e.Cluster.Namespace); err != nil {
		return e.Cluster.Explain(err)
	}
	switch {
	case !r.secret.Exists:
		return report.Usage(fmt.Sprintf("there is no Secret %s/%s", r.secret.Namespace, r.secret.Name), "run csccm install")
	case r.secret.Problem != nil:
		return report.Usage(r.secret.Problem.Error(), "correct the Secret, or run csccm install --overwrite-secret")
	}
	r.hide = append(r.hide, r.secret.Config.APIKey, r.secret.Config.SecretKey)
	var cleanup func()
	if r.local, cleanup, err = r.secret.LocalConfig(ctx, e.Cluster.Kube); err != nil {
		return e.Cluster.Explain(err)
	}
	defer cleanup()
	r.watcher = &watcher{run: r, seen: map[string]said{}, waiter: e.Waiter()}
	if err := r.watcher.ready(ctx); err != nil {
		return err
	}
	login := *r.local
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	admin, end, err := o.Admin(ctx, &login)
	if err != nil {
		return err
	}
	defer end()
	r.admin = admin
	object, err := r.read(ctx)
	if err != nil {
		return err
	}
	if r.plan, err = newPlan(ctx, admin, object, r.secret.Config.APIKey, o.User, o.KeepOld); err != nil {
		return err
	}
	steps := []engine.Step{{Name: "proof by the controller", Do: r.prove}, {Name: "old keys", Do: r.retire}}
	if !r.plan.switched {
		steps = append([]engine.Step{{Name: "new keys", Do: r.makeKeys}, {Name: "Secret", Do: r.write}}, steps...)
	}
	return e.Run(ctx, engine.Operation{
		Name: Command, What: fmt.Sprintf("rotate the keys of account %q", r.plan.Account), Question: prompt.Question{Message: "Go on"},
		Plan: r.plan, Show: r.plan.print, Steps: steps, Result: func() any { return r.outcome() }, Done: r.done,
		Prepare: func(ctx context.Context) error {
			if r.plan.switched {
				return nil
			}
			return r.watcher.before(ctx)
		},
	})
}

func (r *run) scrub(text string) string {
	for _, s := range r.hide {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

func (r *run) read(ctx context.Context) (*corev1.Secret, error) {
	s, err := r.Cluster.Kube.CoreV1().Secrets(r.secret.Namespace).Get(ctx, r.secret.Name, metav1.GetOptions{})
	return s, r.Cluster.Explain(err)
}

// change updates the Secret, again when somebody else did meanwhile.
func (r *run) change(ctx context.Context, edit func(s *corev1.Secret)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := r.Cluster.Kube.CoreV1().Secrets(r.secret.Namespace).Get(ctx, r.secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s = s.DeepCopy()
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		edit(s)
		_, err = r.Cluster.Kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{FieldManager: "csccm"})
		return err
	})
	return r.Cluster.Explain(err)
}

// makeKeys names the user on the Secret, makes it, registers keys and proves them.
func (r *run) makeKeys(ctx context.Context, note engine.Note) error {
	p := r.plan
	r.Progress.Step("New keys of user %q", p.To)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		// First, so that a run that ends here is continued with the same user.
		if err := r.change(ctx, func(s *corev1.Secret) { s.Annotations[annotationTo] = p.To }); err != nil {
			return err
		}
		if p.toID == "" {
			made := credentials.MadeObject{Kind: credentials.MadeUser, Name: p.To, Account: p.Account, DomainID: p.from.DomainID, Domain: p.from.Domain}
			record := func() error {
				return credentials.RecordMade(ctx, r.Cluster.Kube, r.secret.Namespace, r.secret.Config.APIURL, r.secret.Config.SSLNoVerify, made)
			}
			if err := record(); err != nil {
				return r.Cluster.Explain(err)
			}
			u, err := r.admin.CreateUser(ctx, credentials.NewUser(p.Account, p.To, p.from.DomainID))
			if err != nil {
				return fmt.Errorf("creating user %q: %w", p.To, err)
			}
			p.toID, made.ID = u.ID, u.ID
			if err := record(); err != nil {
				return r.Cluster.Explain(err)
			}
			note("made user %q", p.To)
		}
		keys, err := r.admin.RegisterUserKeys(ctx, p.toID)
		if err != nil {
			return fmt.Errorf("registering keys for user %q: %w", p.To, err)
		}
		r.keys = credentials.Keys{APIKey: keys.APIKey, SecretKey: keys.SecretKey}
		r.hide = append(r.hide, keys.APIKey, keys.SecretKey)
		note("registered keys of user %q", p.To)
		return nil
	})
	if err == nil {
		err = r.verify(ctx)
	}
	if err != nil {
		return err
	}
	r.Progress.Done("they do what the controller needs")
	return nil
}

func (r *run) verify(ctx context.Context) error {
	cfg := *r.local
	cfg.APIKey, cfg.SecretKey = r.keys.APIKey, r.keys.SecretKey
	api, err := cloudstack.NewClient(&cfg)
	if err != nil {
		return err
	}
	_, err = credentials.Verify(ctx, api, credentials.Want{
		APIURL: cfg.APIURL, Project: cfg.ProjectID, Zone: cfg.Zone,
		Required: credentials.Without(r.Required, r.Optional), Optional: r.Optional,
	})
	return err
}

// write puts the new keys into the Secret and, with the same write, whose keys
// were there before.
func (r *run) write(ctx context.Context, note engine.Note) error {
	r.Progress.Step("Secret %s/%s", r.secret.Namespace, r.secret.Name)
	next := *r.secret.Config
	next.APIKey, next.SecretKey = r.keys.APIKey, r.keys.SecretKey
	credentials.CarryRecordKey(&next, r.secret.Config)
	r.hide = append(r.hide, next.PreviousRecordKey)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		return r.change(ctx, func(s *corev1.Secret) {
			r.old = bytes.Clone(s.Data[credentials.SecretKey])
			s.Data[credentials.SecretKey] = next.Render()
			s.Annotations[annotationFrom] = r.plan.From
			delete(s.Annotations, annotationTo)
			credentials.ReplaceUser(s, r.plan.From, r.plan.To, r.secret.Config.APIKey, r.keys.APIKey)
		})
	})
	if err != nil {
		return err
	}
	note("the Secret holds the keys of user %q", r.plan.To)
	r.Progress.Done("written")
	return nil
}

// prove waits for the controller; when it refuses the keys, the old ones come
// back, which still work.
func (r *run) prove(ctx context.Context, note engine.Note) error {
	err := r.watcher.prove(ctx)
	if err == nil || r.old == nil || ctx.Err() != nil {
		return err
	}
	former := r.formerly()
	back := engine.Shielded(ctx, func(ctx context.Context) error {
		return r.change(ctx, func(s *corev1.Secret) {
			s.Data[credentials.SecretKey] = former
			s.Annotations[annotationTo] = r.plan.To
			delete(s.Annotations, annotationFrom)
			credentials.ReplaceUser(s, r.plan.To, r.plan.From, r.keys.APIKey, r.secret.Config.APIKey)
		})
	})
	if back != nil {
		return unproven(err, back)
	}
	note("the Secret holds the keys of user %q again", r.plan.From)
	return unproven(err, nil)
}

// formerly is the cloud-config of before, which believes what was signed with the new keys meanwhile.
func (r *run) formerly() []byte {
	was, err := cloudconfig.Parse(bytes.NewReader(r.old))
	if err != nil {
		return r.old
	}
	credentials.CarryRecordKey(was, &cloudstack.Config{SecretKey: r.keys.SecretKey})
	r.hide = append(r.hide, was.PreviousRecordKey)
	return was.Render()
}

// unproven is the error of a controller that did not take the new keys. back is why the old keys could not be put back.
func unproven(err, back error) error {
	state := "the Secret holds the old keys again, which still work"
	if back != nil {
		state = fmt.Sprintf("and the old keys could not be put back: %v", back)
	}
	return report.Remedied(fmt.Errorf("%w; %s", err, state), "see csccm doctor for the cause, and run csccm rotate-keys again")
}

// retire makes the old keys worthless: CloudStack replaces them by a pair that nobody reads.
func (r *run) retire(ctx context.Context, note engine.Note) error {
	p := r.plan
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if !r.KeepOld {
			r.Progress.Step("Old keys of user %q", p.From)
			if _, err := r.admin.RegisterUserKeys(ctx, p.from.ID); err != nil {
				return fmt.Errorf("replacing the old keys of user %q: %w", p.From, err)
			}
			note("the old keys of user %q are worthless", p.From)
			r.Progress.Done("worthless")
		}
		return r.change(ctx, func(s *corev1.Secret) {
			delete(s.Annotations, annotationFrom)
			if r.KeepOld { // somebody may work with them
				delete(s.Annotations, annotationSpare)
			} else {
				s.Annotations[annotationSpare] = p.From
			}
		})
	})
}

func (r *run) outcome() Result {
	p := r.plan
	out := r.result
	out.SchemaVersion, out.Account, out.User, out.OldUser = 1, p.Account, p.To, p.From
	out.OldKeysWork, out.Secret = r.KeepOld, p.Namespace+"/"+p.Secret
	if !r.KeepOld {
		out.NextRotation = p.From
	}
	return out
}

// done prints the result for a person.
func (r *run) done(w io.Writer) error {
	old := "are worthless"
	if r.KeepOld {
		old = "still work"
	}
	_, err := fmt.Fprintf(w, "the controller works with the keys of user %q (%s of %s); the keys of user %q %s\n",
		r.plan.To, r.result.Proof, count(r.result.Pods), r.plan.From, old)
	return err
}

func count(pods int) string { return plural.Count(pods, "Pod") }

func (p *Plan) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Rotation of the keys in Secret %s/%s, account %q:\n", p.Namespace, p.Secret, p.Account)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  - %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
