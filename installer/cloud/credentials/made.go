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

// MadeConfigMap lists what csccm made in CloudStack for the cluster, so that it can be removed again. It is written
// before the first change, and outlives a failed install and an uninstall.
const (
	MadeConfigMap = "csccm-cloudstack"
	madeKey       = "made.json"
)

// MadeKind is the kind of an object that csccm created.
type MadeKind string

// Kinds, in the order in which they are made.
const (
	MadeRole    MadeKind = "role"
	MadeAccount MadeKind = "account" // with its first user
	MadeUser    MadeKind = "user"    // with its keys
	MadeKeys    MadeKind = "keys"    // of a user that was there before
)

// MadeObject is one of them. It holds no secret.
type MadeObject struct {
	Kind MadeKind `json:"kind"`
	Name string   `json:"name"`
	// ID is empty where csccm was about to make it and did not learn the outcome.
	ID       string `json:"id,omitempty"`
	Account  string `json:"account,omitempty"` // of a user
	DomainID string `json:"domainID,omitempty"`
	Domain   string `json:"domain,omitempty"` // path
}

var madeText = map[MadeKind]string{
	MadeRole:    "role %[1]q",
	MadeAccount: "account %[1]q of domain %[3]s",
	MadeUser:    "user %[1]q of account %[2]q, domain %[3]s",
	MadeKeys:    "API keys of user %[1]q of account %[2]q, domain %[3]s",
}

func (o MadeObject) String() string {
	return fmt.Sprintf(madeText[o.Kind], o.Name, o.Account, o.Domain)
}

func (o MadeObject) same(p *MadeObject) bool {
	return o.Kind == p.Kind && o.Name == p.Name && o.Account == p.Account && o.DomainID == p.DomainID
}

// Made is the whole list.
type Made struct {
	SchemaVersion int          `json:"schemaVersion"`
	APIURL        string       `json:"apiURL"`
	SSLNoVerify   bool         `json:"sslNoVerify,omitempty"`
	Objects       []MadeObject `json:"objects"`

	Cluster string `json:"-"` // the UID of kube-system, which marks what csccm makes; "" where it cannot be read
}

// ReadMade reads the list, and which cluster it is of. It is empty where there is none.
func ReadMade(ctx context.Context, kube kubernetes.Interface, namespace string) (*Made, error) {
	c, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, MadeConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, MadeConfigMap, err)
	}
	m, err := decodeMade(c)
	if err != nil {
		return nil, err
	}
	m.Cluster, err = cluster.UID(ctx, kube)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		err = nil
	}
	return m, err
}

// Owner returns the account in which csccm made a user for this cluster, and its domain, in the CloudStack at a URL.
func (m *Made) Owner(apiURL string) (account, domain string) {
	for _, o := range m.Objects {
		if o.Kind == MadeUser && strings.EqualFold(m.APIURL, apiURL) {
			account, domain = o.Account, o.Domain
		}
	}
	return account, domain
}

// Mine reports whether csccm made a user for this cluster: by the user's mark, which outlives the list, or without one
// by the list. The keys of all other users are never revoked, because nobody knows who works with them.
func (m *Made) Mine(u *cloudapi.User) bool {
	if mark := u.Cluster(); mark != "" {
		return mark == m.Cluster
	}
	return slices.ContainsFunc(m.Objects, func(o MadeObject) bool {
		return o.same(&MadeObject{Kind: MadeUser, Name: u.Username, Account: u.Account, DomainID: u.DomainID}) &&
			(o.ID == "" || o.ID == u.ID)
	})
}

// decodeMade reads the list in a ConfigMap; one without any, as the API server never returns it, is an empty list.
func decodeMade(c *corev1.ConfigMap) (*Made, error) {
	m := &Made{SchemaVersion: 1}
	if len(c.Data) == 0 && c.ResourceVersion == "" {
		return m, nil
	}
	if err := json.Unmarshal([]byte(c.Data[madeKey]), m); err != nil || m.SchemaVersion != 1 {
		return nil, fmt.Errorf("ConfigMap %s/%s is no list of csccm's of what it made in CloudStack", c.Namespace,
			c.Name)
	}
	return m, nil
}

// Recorded runs do, which makes objects in the CloudStack of a configuration, and lists them in the cluster before, and
// with their ids, which do notes, after. What CloudStack has certainly not made is taken off the list.
func Recorded(
	ctx context.Context, c *cluster.Cluster, cfg *cloudstack.Config, objects []*MadeObject, do func() error,
) error {
	if len(objects) == 0 {
		return do()
	}

	err := changeMade(ctx, c, func(m *Made) {
		if m.APIURL != "" && !strings.EqualFold(m.APIURL, cfg.APIURL) {
			m.Objects = nil // of another CloudStack, which the cluster has left
		}
		m.APIURL, m.SSLNoVerify = cfg.APIURL, cfg.SSLNoVerify
		m.add(objects)
	})
	if err != nil {
		return err
	}

	err = do()
	answer, answered := errors.AsType[*cloudstack.Error](err)
	recorded := changeMade(ctx, c, func(m *Made) {
		m.add(objects)
		if answered && !answer.MayHaveHappened {
			m.Objects = slices.DeleteFunc(m.Objects,
				func(o MadeObject) bool { return o.ID == "" && slices.ContainsFunc(objects, o.same) })
		}
	})

	if recorded == nil {
		return err
	}

	return errors.Join(err, recorded)
}

// add lists objects. One that is there gets its id.
func (m *Made) add(objects []*MadeObject) {
	for _, o := range objects {
		i := slices.IndexFunc(m.Objects, func(p MadeObject) bool { return p.same(o) })
		if i < 0 {
			i, m.Objects = len(m.Objects), append(m.Objects, *o)
		}
		m.Objects[i].ID = cmp.Or(o.ID, m.Objects[i].ID)
	}
}

func changeMade(ctx context.Context, c *cluster.Cluster, change func(*Made)) error {
	err := cluster.ChangeConfigMap(ctx, c.Kube, c.Namespace, MadeConfigMap, func(c *corev1.ConfigMap) error {
		m, err := decodeMade(c)
		if err != nil {
			return err
		}
		change(m)
		body, err := json.Marshal(m)
		c.Data = map[string]string{madeKey: string(body)}
		if len(m.Objects) == 0 {
			c.Data = nil
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("keeping the list of what was made in CloudStack in ConfigMap %s/%s: %w", c.Namespace,
			MadeConfigMap, err)
	}

	return err
}
