package configmap

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LastChange is when an object's data last changed, as its managed fields tell: the API server stamps a manager's entry
// when what that manager set has changed. An object without them is as old as its creation.
func LastChange(created time.Time, managed []metav1.ManagedFieldsEntry) time.Time {
	at := created
	for _, entry := range managed {
		if entry.Time != nil && entry.Time.After(at) && ownsData(entry) {
			at = entry.Time.Time
		}
	}
	return at
}

// Unknown stands for a manager of which no record is left.
const Unknown = "(unknown)"

// LastManager names the manager, other than not, that last changed an object: its data, or, where nobody else owns any of
// that, anything in it.
func LastManager(managed []metav1.ManagedFieldsEntry, not string) string {
	name, nameOfData := Unknown, ""
	var at, atData time.Time
	for _, entry := range managed {
		if entry.Manager == not || entry.Time == nil {
			continue
		}
		if !entry.Time.Time.Before(at) {
			name, at = entry.Manager, entry.Time.Time
		}
		if ownsData(entry) && !entry.Time.Time.Before(atData) {
			nameOfData, atData = entry.Manager, entry.Time.Time
		}
	}
	if nameOfData != "" {
		return nameOfData
	}
	return name
}

func ownsData(entry metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:data"`))
}
