-- nvim --headless -u NONE FILE -c 'luafile tests/lsp/neovim.lua': the lines that graphs/README.md has
-- for Neovim, on a graph with a typo. What it prints is held against words by test_editors.cpp.
local function say(text) io.stdout:write(text .. "\n") end
local function until_(holds) return vim.wait(10000, holds, 20) end

local readme = table.concat(vim.fn.readfile(vim.env.SLUICE_README), "\n")
loadstring(readme:match("```lua\n(.-)```"))()
vim.bo.filetype = "json" -- the autocommand attaches the server

until_(function() return #vim.diagnostic.get(0) > 0 end)
local found = vim.diagnostic.get(0)[1]
say("marked: line " .. found.lnum + 1 .. ": " .. found.message:match("[^\n]*"))

vim.api.nvim_win_set_cursor(0, { found.lnum + 1, found.col + 1 })
vim.ui.select = function(items, options, choose)
  say("offered: " .. options.format_item(items[1]))
  choose(items[1], 1)
end
vim.lsp.buf.code_action()
until_(function() return #vim.diagnostic.get(0) == 0 end)
say("problems after the fix: " .. #vim.diagnostic.get(0))

local answers = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(), 10000)
for _, answer in pairs(answers) do
  say("hover: " .. answer.result.contents.value:match("load_image"))
end

vim.fn.search('"made"')
vim.fn.search("made")
vim.lsp.buf.rename("source")
until_(function() return not vim.fn.join(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n"):find('"made"') end)
for _, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do say("| " .. line) end
vim.cmd("qall!")
