package coderdtest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// file is an uploaded archive. Coder stores it as tar, whatever the format of the upload was.
type file struct {
	id    uuid.UUID
	hash  [sha256.Size]byte
	owner uuid.UUID
	data  []byte
}

const maxFileBytes = 100 << 20

// AddFile stores an archive with these files. The contents may be binary.
func (s *Server) AddFile(files map[string]string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, _ := s.insertFile(uuid.Nil, packTar(files))
	return f.id
}

func packTar(files map[string]string) []byte {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		// Writing to memory cannot fail.
		_ = w.WriteHeader(&tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o644, ModTime: time.Unix(0, 0), Uid: 1000, Gid: 1000})
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	return packed.Bytes()
}

func (s *Server) insertFile(owner uuid.UUID, data []byte) (f *file, isNew bool) {
	hash := sha256.Sum256(data)
	for _, f := range s.files {
		if f.hash == hash && f.owner == owner {
			return f, false
		}
	}
	f = &file{id: uuid.New(), hash: hash, owner: owner, data: data}
	s.files = append(s.files, f)
	s.index.files[f.id] = f
	return f, true
}

// problem returns the reason why Coder's provisioner cannot unpack the archive, or an empty string:
// the provisioner does not create folders that have no entry of their own.
func (f *file) problem() string {
	folders := map[string]bool{".": true}
	reader := tar.NewReader(bytes.NewReader(f.data))
	for {
		header, err := reader.Next()
		switch {
		case err == io.EOF:
			return ""
		case err != nil:
			return "template import init error: extract template archive: " + err.Error()
		case header.Typeflag == tar.TypeDir:
			folders[path.Clean(header.Name)] = true
		case !folders[path.Dir(header.Name)]:
			return fmt.Sprintf("template import init error: extract template archive: create file %q: no such file or directory", header.Name)
		}
	}
}

func (s *Server) postFile(r *request) {
	contentType := r.Header.Get("Content-Type")
	if contentType != codersdk.ContentTypeTar && contentType != codersdk.ContentTypeZip {
		refuse(http.StatusBadRequest, fmt.Sprintf("Unsupported content type header %q.", contentType))
	}
	data, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, maxFileBytes))
	if err != nil {
		refuseDetailed(http.StatusBadRequest, "Failed to read file from request.", err.Error())
	}
	if contentType == codersdk.ContentTypeZip {
		data = s.tarOfZip(data)
	}
	f, isNew := s.insertFile(r.user.ID, data)
	status := http.StatusOK
	if isNew {
		status = http.StatusCreated
	}
	r.write(status, codersdk.UploadResponse{ID: f.id})
}

func (s *Server) tarOfZip(data []byte) []byte {
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		refuseDetailed(http.StatusBadRequest, "Incomplete .zip archive file.", err.Error())
	}
	var unpacked uint64
	for _, entry := range reader.File {
		unpacked += entry.UncompressedSize64
	}
	if unpacked > maxFileBytes {
		if s.has(bombTooLarge) {
			refuse(http.StatusRequestEntityTooLarge, "Expanded .zip archive exceeds maximum size.")
		}
		refuse(http.StatusInternalServerError, "Internal error processing .zip archive.")
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, entry := range reader.File {
		content, err := entry.Open()
		if err == nil {
			err = w.WriteHeader(&tar.Header{
				Name: entry.Name, Size: entry.FileInfo().Size(), Mode: int64(entry.Mode()), ModTime: entry.Modified, Uid: 1000, Gid: 1000,
			})
		}
		if err == nil {
			_, err = io.Copy(w, content)
		}
		if err != nil {
			refuseDetailed(http.StatusInternalServerError, "Internal error processing .zip archive.", err.Error())
		}
	}
	_ = w.Close()
	return packed.Bytes()
}

func (s *Server) getFile(r *request) {
	id, err := uuid.Parse(r.PathValue("file"))
	if err != nil {
		refuse(http.StatusBadRequest, "File id must be a valid UUID.")
	}
	f := found(s.index.files[id])
	r.w.Header().Set("Content-Type", codersdk.ContentTypeTar)
	r.w.WriteHeader(http.StatusOK)
	_, _ = r.w.Write(f.data)
}

// archiveVersion archives an unused version.
func (s *Server) archiveVersion(r *request) {
	v := s.pathVersion(r)
	r.needsRole("owner", "template-admin")
	switch {
	case v.Archived:
		refuse(http.StatusBadRequest, "Template version already archived")
	case v.template == uuid.Nil:
		refuse(http.StatusBadRequest, "Cannot archive template versions not associate with a template.")
	case s.inUse(v):
		refuseDetailed(http.StatusInternalServerError, "Internal error fetching template version.",
			"Unable to archive specified version, the version is likely in use by a workspace or currently set to the active version")
	}
	v.Archived, v.UpdatedAt = true, s.now()
	r.write(http.StatusOK, fmt.Sprintf("template version %q archived", v.ID))
}

// inUse reports whether a version is the active one, is being built, or is used by the latest build
// of a workspace.
func (s *Server) inUse(v *version) bool {
	if t := s.templateByID(v.template); t == nil || t.ActiveVersionID == v.ID {
		return true
	}
	if v.job.Status == codersdk.ProvisionerJobPending || v.job.Status == codersdk.ProvisionerJobRunning {
		return true
	}
	for _, w := range s.index.workspaces {
		if b := w.latest(); b.TemplateVersionID == v.ID && b.Transition != codersdk.WorkspaceTransitionDelete {
			return true
		}
	}
	return false
}

func (s *Server) versionNamed(template uuid.UUID, name string) *version {
	return first(s.versions, func(v *version) bool { return v.template == template && v.Name == name })
}

// versionSDK converts a version, with the fields that Coder returns only for a single version.
func (s *Server) versionSDK(v *version) codersdk.TemplateVersion {
	out := v.sdk()
	if v.job.Status == codersdk.ProvisionerJobPending {
		out.MatchedProvisioners = s.matchedSDK(v.job)
	}
	return out
}
