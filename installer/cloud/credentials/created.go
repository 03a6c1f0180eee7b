// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// CreatedConfigMap is the ConfigMap with the list of what csccm created in CloudStack for the cluster, so that it can
// be removed again. It is written before the first change, and kept after a failed install and after an uninstall.
const (
	CreatedConfigMap = "csccm-cloudstack"
	createdKey       = "made.json"
)

// CreatedKind is the kind of an object that csccm created.
type CreatedKind string

// Kinds, in the order of their creation.
const (
	CreatedRole    CreatedKind = "role"
	CreatedAccount CreatedKind = "account" // with its first user
	CreatedUser    CreatedKind = "user"    // with its keys
	CreatedKeys    CreatedKind = "keys"    // of a user that existed before
)

// CreatedObject is an object that csccm created. It holds no secret.
type CreatedObject struct {
	Kind CreatedKind `json:"kind"`
	Name string      `json:"name"`
	// ID is empty if csccm tried to create the object and does not know the outcome.
	ID       string `json:"id,omitempty"`
	Account  string `json:"account,omitempty"` // of a user
	DomainID string `json:"domainID,omitempty"`
	Domain   string `json:"domain,omitempty"` // path
}

var createdText = map[CreatedKind]string{
	CreatedRole:    "role %[1]q",
	CreatedAccount: "account %[1]q of domain %[3]s",
	CreatedUser:    "user %[1]q of account %[2]q, domain %[3]s",
	CreatedKeys:    "API keys of user %[1]q of account %[2]q, domain %[3]s",
}

func (o CreatedObject) String() string {
	return fmt.Sprintf(createdText[o.Kind], o.Name, o.Account, o.Domain)
}

func (o CreatedObject) same(p *CreatedObject) bool {
	return o.Kind == p.Kind && o.Name == p.Name && o.Account == p.Account && o.DomainID == p.DomainID
}

// createdUser returns the entry of a user.
func createdUser(u *cloudapi.User) *CreatedObject {
	return &CreatedObject{
		Kind:     CreatedUser,
		Name:     u.Username,
		ID:       u.ID,
		Account:  u.Account,
		DomainID: u.DomainID,
		Domain:   u.Domain,
	}
}

// Created is the list of what csccm created in CloudStack for a cluster.
type Created struct {
	SchemaVersion int             `json:"schemaVersion"`
	APIURL        string          `json:"apiURL"`
	SSLNoVerify   bool            `json:"sslNoVerify,omitempty"`
	Objects       []CreatedObject `json:"objects"`

	// Cluster is the UID of namespace kube-system, which marks users that csccm makes; "" if it cannot be read.
	Cluster string `json:"-"`
}

// ReadCreated returns the list and the cluster that it belongs to. The list is empty if there is no ConfigMap.
func ReadCreated(ctx context.Context, kube kubernetes.Interface, namespace string) (*Created, error) {
	c, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, CreatedConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, CreatedConfigMap, err)
	}
	m, err := decodeCreated(c)
	if err != nil {
		return nil, err
	}
	m.Cluster, err = cluster.UID(ctx, kube)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		err = nil
	}
	return m, err
}

// Owner returns the account, and its domain, in which csccm created a user for this cluster; "" if it made none in the
// CloudStack at apiURL.
func (m *Created) Owner(apiURL string) (account, domain string) {
	for _, o := range m.Objects {
		if o.Kind == CreatedUser && strings.EqualFold(m.APIURL, apiURL) {
			account, domain = o.Account, o.Domain
		}
	}
	return account, domain
}

// Mine reports whether csccm created a user for this cluster. The user's mark decides, because the list may be lost;
// the list decides for a user without a mark. The keys of all other users are never revoked, because other programs may
// use them.
func (m *Created) Mine(u *cloudapi.User) bool {
	if mark := u.Cluster(); mark != "" {
		return mark == m.Cluster
	}
	return slices.ContainsFunc(m.Objects, func(o CreatedObject) bool {
		return o.same(createdUser(u)) && (o.ID == "" || o.ID == u.ID)
	})
}

// Marked returns what csccm created for this cluster by the marks of users, because the list may be lost or outdated.
// Accounts and roles have no mark. Without a list, csccm created an account if all its users are csccm's, because
// CloudStack creates a user with each account.
func (m *Created) Marked(users []cloudapi.User) (out []*CreatedObject) {
	mine := func(u cloudapi.User) bool { return u.Cluster() != "" && m.Mine(&u) }
	for _, u := range users {
		if !mine(u) {
			continue
		}

		out = append(out, createdUser(&u))
		foreign := func(o cloudapi.User) bool { return o.AccountID == u.AccountID && !mine(o) }
		if len(m.Objects) == 0 && !slices.ContainsFunc(users, foreign) {
			account := &CreatedObject{Kind: CreatedAccount, Name: u.Account, ID: u.AccountID}
			account.DomainID, account.Domain = u.DomainID, u.Domain
			out = append(out, account)
			if u.RoleName == DefaultRole {
				out = append(out, &CreatedObject{Kind: CreatedRole, Name: u.RoleName})
			}
		}
	}
	return out
}

// decodeCreated reads the list in a ConfigMap. An empty ConfigMap without a resourceVersion does not exist in the
// cluster: it is an empty list.
func decodeCreated(c *corev1.ConfigMap) (*Created, error) {
	m := &Created{SchemaVersion: 1}
	if len(c.Data) == 0 && c.ResourceVersion == "" {
		return m, nil
	}
	if err := json.Unmarshal([]byte(c.Data[createdKey]), m); err != nil || m.SchemaVersion != 1 {
		return nil, fmt.Errorf("ConfigMap %s/%s is not csccm's list of what it created in CloudStack", c.Namespace,
			c.Name)
	}
	return m, nil
}

// Recorded calls do, which creates objects in CloudStack, and records the objects in the cluster: before the call, and
// after it with the ids that do has set. It removes objects from the list again if CloudStack has certainly not created
// them.
func Recorded(
	ctx context.Context, c *cluster.Cluster, cfg *cloudstack.Config, objects []*CreatedObject, do func() error,
) error {
	if len(objects) == 0 {
		return do()
	}

	err := changeCreated(ctx, c, func(m *Created) {
		if m.APIURL != "" && !strings.EqualFold(m.APIURL, cfg.APIURL) {
			m.Objects = nil // objects of another CloudStack that the cluster no longer uses
		}
		m.APIURL, m.SSLNoVerify = cfg.APIURL, cfg.SSLNoVerify
		m.add(objects)
	})
	if err != nil {
		return err
	}

	err = do()
	answer, answered := errors.AsType[*cloudstack.Error](err)
	recorded := changeCreated(ctx, c, func(m *Created) {
		m.add(objects)
		if answered && !answer.MayHaveHappened {
			m.Objects = slices.DeleteFunc(m.Objects,
				func(o CreatedObject) bool { return o.ID == "" && slices.ContainsFunc(objects, o.same) })
		}
	})

	if recorded == nil {
		return err
	}

	return errors.Join(err, recorded)
}

// add adds objects to the list. It sets the id of an object that is already in the list.
func (m *Created) add(objects []*CreatedObject) {
	for _, o := range objects {
		i := slices.IndexFunc(m.Objects, func(p CreatedObject) bool { return p.same(o) })
		if i < 0 {
			i, m.Objects = len(m.Objects), append(m.Objects, *o)
		}
		m.Objects[i].ID = cmp.Or(o.ID, m.Objects[i].ID)
	}
}

func changeCreated(ctx context.Context, c *cluster.Cluster, change func(*Created)) error {
	err := cluster.ChangeConfigMap(ctx, c.Kube, c.Namespace, CreatedConfigMap, func(c *corev1.ConfigMap) error {
		m, err := decodeCreated(c)
		if err != nil {
			return err
		}
		change(m)
		body, err := json.Marshal(m)
		c.Data = map[string]string{createdKey: string(body)}
		if len(m.Objects) == 0 {
			c.Data = nil
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("writing the list of what was created in CloudStack to ConfigMap %s/%s: %w", c.Namespace,
			CreatedConfigMap, err)
	}

	return err
}
