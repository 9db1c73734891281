;; emacs --batch FILE -l tests/lsp/emacs.el: the lines that graphs/README.md has for Emacs, on a graph
;; with a typo. What it prints is held against words by test_editors.cpp. A batch has no commands and
;; is never idle, which eglot waits for: its hook is run here, and its changes are sent.
(defun say (&rest words) (princ (concat (apply #'format words) "\n")))
(defun await (holds)
  (let ((end (+ (float-time) 10)))
    (while (and (not (funcall holds)) (< (float-time) end))
      (accept-process-output nil 0.02))))
(defun problems ()
  (eglot--signal-textDocument/didChange)
  (flymake-start)
  (flymake-diagnostics))

(require 'package)
(package-initialize) ; Debian's elpa-eglot; newer Emacs has it
(require 'eglot)
(require 'flymake)
(require 'js)
(with-temp-buffer
  (insert-file-contents (getenv "SLUICE_README"))
  (search-forward "```elisp\n")
  (let ((begin (point)))
    (search-forward "```")
    (eval-region begin (match-beginning 0))))

(switch-to-buffer (find-file-noselect "g.json"))
(js-mode) ; the hook asks for the server
(run-hooks 'post-command-hook)
(await #'problems)
(let ((found (car (flymake-diagnostics))))
  (goto-char (flymake-diagnostic-beg found))
  (say "marked: line %d: %s" (line-number-at-pos)
       ;; eglot puts the source and the code before it
       (replace-regexp-in-string "^sluice \\[[A-Z0-9]*\\]: \\|\n.*" ""
                                 (flymake-diagnostic-text found))))

(setq last-nonmenu-event ?\r) ; by the keyboard, not a mouse's menu
(fset 'completing-read
      (lambda (_prompt menu &rest _)
        (say "offered: %s" (caar menu))
        (caar menu)))
(eglot-code-actions (point) (point) nil t)
(await (lambda () (not (problems))))
(say "problems after the fix: %d" (length (flymake-diagnostics)))

(goto-char (point-min))
(search-forward "load_image")
(backward-char 3)
(let* ((answer (jsonrpc-request (eglot-current-server) :textDocument/hover
                                (eglot--TextDocumentPositionParams)))
       (text (plist-get (plist-get answer :contents) :value)))
  (say "hover: %s" (and (string-match "load_image" text) (match-string 0 text))))

(goto-char (point-min))
(search-forward "\"made")
(backward-char 2)
(eglot-rename "source")
(await (lambda () (not (string-match "\"made\"" (buffer-string)))))
(dolist (line (split-string (buffer-string) "\n")) (say "| %s" line))
(set-buffer-modified-p nil)
(kill-emacs 0)
